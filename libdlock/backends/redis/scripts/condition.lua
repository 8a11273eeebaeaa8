-- A condition: a line in which nobody is granted anything until a signal.
--   KEYS: 1 hash of all who have a place: owner -> "<lapses> <hears> <since>" of who waits, "signal <token>"
--   of who is signalled and isn't back yet; and mode -> condition, which no lock has; 2 the line: list of
--   those who wait, the first is next; 3 zset of those who are signalled, by when that goes on to the next
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 so many ms is waited for who was told that it is signalled, and
--   then of an acquire 5 how many ms a place lasts if nobody asks for it, 6 '1': the client hears what it is
--   told; of a release 5 the token of the signal that was used, or 0; of a signal 5 how many
-- Times are those of the server's clock, in ms of the epoch; <since> in us.
--@include call_owner.lua
--@include lease.lua
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stamp = time[1] .. string.sub('00000' .. time[2], -6)
local keep_ms = 60000 -- what there is outlives all places by so much

-- The error to answer where something else lies here; nothing: it is a condition, or nobody's.
local function other_kind()
    local mode = redis.call('hget', KEYS[1], 'mode')
    if mode ~= 'condition' and (mode or redis.call('exists', KEYS[1]) == 1) then
        return redis.error_reply('DLOCKKIND a lock is here, not a condition')
    end
end

-- The token of who is signalled; nothing: it waits, or has no place.
local function signal_of(owner)
    return string.match(redis.call('hget', KEYS[1], owner) or '', '^signal (%d+)$')
end

-- Nothing stays for ever.
local function last_until(ends)
    for i = 1, 3 do
        if redis.call('pttl', KEYS[i]) < ends - now then
            redis.call('pexpire', KEYS[i], string.format('%.0f', ends - now + keep_ms))
        end
    end
end

-- The place of who isn't in the line, or not any more. The last one takes along what is left.
local function drop(owner)
    redis.call('zrem', KEYS[3], owner)
    if redis.call('hdel', KEYS[1], owner) == 1 and redis.call('hlen', KEYS[1]) == 1 then
        redis.call('del', KEYS[1], KEYS[2], KEYS[3])
    end
end

-- Tells the first who waits to ask again, and answers who that is, and until when it is waited for. Those
-- before it are dead, or were away for too long: they lose their places, and are told as well. Whoever is
-- alive all the same finds its place gone, and wakes up.
local function call_first()
    while true do
        local owner = redis.call('lindex', KEYS[2], 0)
        if not owner then
            return nil
        end
        local place = redis.call('hget', KEYS[1], owner) or ''
        local lapses, hears = string.match(place, '^(%d+) (%d) ')
        lapses = tonumber(lapses or 0)
        local heard = call_owner(owner, 0)
        local unknown = hears == '0' or type(heard) == 'table'
        if lapses > now and (unknown or heard > 0) then
            return owner, unknown and lapses or math.min(lapses, now + ARGV[4])
        end
        redis.call('lpop', KEYS[2])
        drop(owner)
    end
end

-- Signals the first `count` who wait; answers how many there were. Whoever is first then has been called, too:
-- it is to look when the first of these signals would go on to it.
local function signal(count)
    local owner, ends = call_first()
    local signalled, last = 0, now
    while owner and signalled < count do
        redis.call('zadd', KEYS[3], ends, owner)
        redis.call('hset', KEYS[1], owner, 'signal ' .. stamp)
        redis.call('lpop', KEYS[2])
        signalled, last = signalled + 1, math.max(last, ends)
        owner, ends = call_first()
    end
    if signalled > 0 then
        last_until(last)
    end
    return signalled
end

-- A signal that wasn't used goes to the next BEFORE its place goes, as wherever this ends half-way it is
-- better to wake one more.
local function pass_on(owner)
    signal(1)
    drop(owner)
end

-- The signals that nobody has come for, or whose owners are dead.
local function settle()
    for _, owner in ipairs(redis.call('zrangebyscore', KEYS[3], 0, now, 'LIMIT', 0, 100)) do
        pass_on(owner)
    end
end

-- Makes the lease of who is signalled last; see lease.lua.
local function hold(most, seen)
    local ends = tonumber(redis.call('zscore', KEYS[3], ARGV[2]) or now)
    local lease, overlong = new_lease(ends - now, ARGV[3], most, seen)
    if lease then
        redis.call('zadd', KEYS[3], string.format('%.0f', now + lease), ARGV[2])
        last_until(now + lease)
    end
    return overlong or 1
end
