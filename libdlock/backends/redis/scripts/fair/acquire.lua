-- Takes a fair lock in Redisson's layout, or a place in its line.
--   KEYS: 1 the lock (hash owner -> count), 2 the counter of its tokens, 3 … 5 its line
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 by how much a member of ours puts
--   off those behind it, in ms, 6 ms after which to ask again at the latest, 7 '1': without taking a
--   place
-- Answers the token as text when the lock is (or was already) the owner's, else ms after which to
-- ask again; -1 - ms when the place in the line is a new one. Asked again, a place stays what it is,
-- and is kept from lapsing.
--@include already_mine.lua
--@include granted.lua
--@include tell.lua
--@include line.lua

-- What the dead leave of a line ends as the counter does, some time after this last place lapses. To
-- one that Redisson has begun nobody gives an end. (Its members' times may be any number.)
local function end_line(begun, place)
    local needs = place - now + keep_ms * 3 / 4
    local left = begun and 0 or redis.call('pttl', KEYS[4])
    if keep_ms > 0 and left >= 0 and left < needs then
        for i = 3, 4 do
            redis.pcall('pexpire', KEYS[i], string.format('%.0f', place - now + keep_ms))
        end
    end
end

local me, put_off, patience = ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6])
local left = redis.call('pttl', KEYS[1])

if left ~= -2 and redis.call('hexists', KEYS[1], me) == 1 then
    return already_mine()
end
local mode = left ~= -2 and redis.call('hget', KEYS[1], 'mode')
if mode then
    return redis.error_reply('DLOCKKIND no plain lock is here, but one in mode ' .. mode)
end

local place = redis.call('zscore', KEYS[4], me)
if place then
    redis.call('hdel', KEYS[5], me)
end
local first = redis.call('lindex', KEYS[3], 0)
local head, until_when, watcher
if left == -2 then
    head, until_when, watcher = whose_turn()
else
    head = prune()
end

if left == -2 and (not head or head == me) then
    local token, problem = next_token(redis.call('get', KEYS[2]))
    if problem then
        return redis.error_reply(problem)
    end
    if head then
        drop_head(me)
        for _, member in ipairs(redis.call('zrange', KEYS[4], 0, -1)) do
            move_up(member)
        end
    else
        redis.call('del', KEYS[4])
    end
    redis.call('hset', KEYS[1], me, 1)
    return granted(token)
end

if ARGV[7] == '1' then
    return math.max(left, 0)
end
-- It may have lapsed, or have been taken for dead, just now.
place = place and tonumber(redis.call('zscore', KEYS[4], me))
if not place then
    local last = redis.call('lindex', KEYS[3], -1)
    local from = last and tonumber(redis.call('zscore', KEYS[4], last)) or 0
    from = math.max(from, now + math.max(left, 0))
    redis.call('rpush', KEYS[3], me)
    redis.call('zadd', KEYS[4], from + put_off, me)
    end_line(not last, from + put_off)
elseif place < now + put_off * 3 / 4 then
    redis.call('zadd', KEYS[4], now + put_off, me)
    end_line(false, now + put_off)
end
if left == -2 and head ~= first then
    tell(ARGV[1] .. ':' .. head) -- it hasn't been told yet that it is its turn
end
local after = patience
if left >= 0 and head == me then
    after = math.min(left, patience)
elseif watcher == me then
    after = math.max(math.min(until_when - now, patience), 0)
end
return place and after or -1 - after
