-- Resigns.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 what is published
--   ARGV: 1 channel, 2 owner
-- Answers 0 when the term isn't the owner's, else 1, or 2 when nobody could be told.
--@include tell.lua

local text = redis.pcall('get', KEYS[3])
if type(text) == 'string' and string.sub(text, 1, #ARGV[2] + 1) == ARGV[2] .. ' ' then
    redis.call('del', KEYS[3])
end
if redis.call('hdel', KEYS[1], ARGV[2]) == 0 then
    return 0
end
return tell(ARGV[1])
