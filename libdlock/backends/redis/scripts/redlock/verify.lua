-- Is the lock the owner's? Where a token is given it is written down if it is: this node's next
-- one is larger then.
--   KEYS: 1 the lock, 2 the counter of its tokens, where they fence
--   ARGV: 1 channel, 2 owner, 3 not used; where they fence 4 see token_life.lua, 5 0, or the
--   token
--@include raise_token.lua
if redis.call('get', KEYS[1]) ~= ARGV[2] then
    return 0
end
if ARGV[5] and ARGV[5] ~= '0' then
    raise_token(ARGV[5])
end
return 1
