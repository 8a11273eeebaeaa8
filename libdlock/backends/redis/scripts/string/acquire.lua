-- Takes a lock as SET NX PX does, with a fencing token of our own beside it.
--   KEYS: 1 the lock (string: the owner), 2 the counter of its tokens
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua
-- Answers the token as text when the lock is (or was already) the owner's, else the PTTL of the
-- holder as a number, -1 where its key has no end.

--@include token.lua
--@include token_or_undo.lua

-- One call instead of a look and a call.
if redis.call('set', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
    return token_or_undo(function()
        return next_token(redis.call('get', KEYS[2]))
    end)
end

local owner, left = redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1])
if owner ~= ARGV[2] then
    return left
end
--@include already_mine.lua
return already_mine()
