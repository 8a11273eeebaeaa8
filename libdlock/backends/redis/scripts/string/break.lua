-- Takes a lock from its holder, whoever's library that uses. The counter of tokens stays, so the
-- next one is larger.
--   KEYS: 1 the lock    ARGV: 1 channel, or '' to tell nobody, 2 owner, or '' for whoever has it
--@include tell.lua

local owner = redis.call('get', KEYS[1])
if not owner or (ARGV[2] ~= '' and ARGV[2] ~= owner) then
    return 0
end
redis.call('del', KEYS[1])
return tell(ARGV[1])
