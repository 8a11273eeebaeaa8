-- Ends somebody's term. The counter of tokens stays, so the next one is larger.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 what is published
--   ARGV: 1 channel, 2 owner, or '' for whoever has it
--@include break_hash.lua
--@include tell.lua
local refused = break_hash()
if refused then
    return refused
end
redis.call('del', KEYS[3])
return tell(ARGV[1])
