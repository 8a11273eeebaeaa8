-- One node's part of a Redlock: SET NX PX, for which an owner may ask again.
--   KEYS: 1 the lock (string: the owner), 2 the counter of its tokens, where they fence
--   ARGV: 1 channel, 2 owner, 3 lease in ms; where they fence 4 see token_life.lua, 5 0, or the token it has
--   elsewhere, 6 0, or what the clocks of all nodes are past, in us
-- Answers a text when the lock is (or was already) the owner's: "0", or what its token could be
-- as far as this node knows. Else the PTTL of the holder as a number, -1 where its key has no end.
--@include lease.lua
if not redis.call('set', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
    if redis.call('get', KEYS[1]) ~= ARGV[2] then
        return redis.call('pttl', KEYS[1])
    end
    lengthen(KEYS[1], ARGV[3])
end
if not ARGV[4] then
    return '0'
end
--@include token.lua
--@include raise_token.lua
--@include token_or_undo.lua

return token_or_undo(function()
    if ARGV[5] ~= '0' then
        return raise_token(ARGV[5])
    end
    return next_token(redis.call('get', KEYS[2]), nil, tonumber(ARGV[6]))
end)
