-- Waits for a signal: takes a place at the end of the line, keeps it, or hears that it is signalled.
--   KEYS, ARGV: see condition.lua
-- Answers a token as text when it is signalled, and then the place lasts as a lease does; else ms after
-- which to ask again, -1 - ms when the place is a new one.
--@include condition.lua

local other = other_kind()
if other then
    return other
end
local me = ARGV[2]
local token = signal_of(me)
if not token then
    settle()
    token = signal_of(me)
end
if token then
    hold()
    return token
end

-- A server that evicts takes one key and leaves the others, and somebody would wait for ever. So all begins anew:
-- whoever has had a place finds it gone, and wakes up.
local since = string.match(redis.call('hget', KEYS[1], me) or '', '^%d+ %d (%d+)$')
local places = redis.call('hlen', KEYS[1])
local line = redis.pcall('llen', KEYS[2])
if places == 0
    or since and type(line) == 'number' and line < places - 1 - redis.call('zcard', KEYS[3]) then
    redis.call('del', KEYS[1], KEYS[2], KEYS[3])
    since = nil
end

local lapses = now + ARGV[5]
if not since then
    redis.call('rpush', KEYS[2], me)
end
local place = string.format('%.0f %s %s', lapses, ARGV[6], since or stamp)
redis.call('hset', KEYS[1], 'mode', 'condition', me, place)
last_until(lapses)
local after = math.floor(ARGV[5] / 3)
local first = redis.call('zrange', KEYS[3], 0, 0, 'WITHSCORES')
if first[2] and redis.call('lindex', KEYS[2], 0) == me then -- that signal may have to go on to it
    after = math.max(math.min(after, first[2] - now), 0)
end
return since and after or -1 - after
