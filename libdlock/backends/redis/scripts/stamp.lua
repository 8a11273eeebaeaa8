-- The time-stamp lock: its value is when its lease is over, and nothing else, as SETNX and GETSET
-- of old fleets write it. Whose it is says a key of our own beside it: "owner value", and, while
-- it has just been taken over from one whose time was over, " since" behind that.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is    ARGV: 5 's' for seconds, else ms
--@include lease.lua
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A lease end as it is written; seconds are rounded up.
local function stamp_of(ms)
    return string.format('%.0f', ARGV[5] == 's' and math.ceil(ms / 1000) or ms)
end

-- The end that is written there, in ms; nothing where that is no time stamp. Some write a fraction,
-- some one more than they mean.
local function end_of(value)
    local number = string.find(value, '^%d+%.?%d*$') and tonumber(value)
    return number and math.min(ARGV[5] == 's' and number * 1000 or number, furthest)
end

-- Who wants to take over an old lock may see it old, be late with its GETSET, and overwrite a
-- fresh one without having got it. That can only be so right after a take-over; what comes later
-- is somebody who has the lock.
local LATE_MS = 1000

-- Whether the lock is this owner's, and its value.
local function is_of(owner)
    local mine, value = redis.call('get', KEYS[3]), redis.call('get', KEYS[1])
    local who, written, since = string.match(mine or '', '^(%S+) (%S+) ?(%d*)$')
    if who ~= owner or not value then
        return false
    end
    local ago = since ~= '' and now - tonumber(since) or -1 -- before: the clock was set back
    if value ~= written and ago >= 0 and ago <= LATE_MS then
        redis.call('set', KEYS[1], written, 'KEEPTTL')
        value = written
    end
    return value == written, value, since
end

-- Writes a lease of so many ms.
local function write(owner, ms, since)
    local stamp = stamp_of(now + ms)
    local last = math.max(end_of(stamp) - now, ms)
    redis.call('set', KEYS[3], owner .. ' ' .. stamp .. since, 'PX', last)
    redis.call('set', KEYS[1], stamp, 'PX', last)
end

-- Makes a lease that is ours last; see lease.lua.
local function hold(value, since, most, seen)
    local lease, ends = new_lease(end_of(value) - now, ARGV[3], most, seen)
    if lease then
        write(ARGV[2], lease, since ~= '' and ' ' .. since or '')
    end
    return ends or 1
end
