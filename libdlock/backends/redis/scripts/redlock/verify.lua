-- Is the lock the owner's? Where a token is given it is written down if it is: this node's next
-- one is larger then.
--   KEYS: 1 the lock, 2 the counter of its tokens, where they fence
--   ARGV: 1 channel, 2 owner, 3 not used, 4 where they fence: 0, or the token
--@include raise_token.lua
if redis.call('get', KEYS[1]) ~= ARGV[2] then
    return 0
end
if ARGV[4] and ARGV[4] ~= '0' then
    raise_token(ARGV[4])
end
return 1
