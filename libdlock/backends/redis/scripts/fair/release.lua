-- Gives back what the owner has: the lock, or its place in the line.
--   KEYS: 1 the lock, 3 … 5 its line
--   ARGV: 1 channel, 2 owner, 3 lease, 4 see token_life.lua, 5 by how much a member of ours puts off those
--   behind it
-- Answers 0 when it had neither, else 1, or 2 when nobody could be told.
--@include tell.lua
--@include line.lua
--@include tell_next.lua

local me = ARGV[2]
local had = redis.call('hdel', KEYS[1], me) == 1
local first = redis.call('lindex', KEYS[3], 0)
local waited = redis.call('zscore', KEYS[4], me)
if waited then
    leave_line(me)
end
if not had and not waited then
    return 0
end
if redis.call('exists', KEYS[1]) == 1 or not had and first ~= me then
    return 1
end
return tell_next(had)
