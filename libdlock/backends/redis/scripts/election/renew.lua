-- Makes a term last; see lease.lua.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 what is published
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see keep_token.lua, 5 what to publish, 6 and 7: see
--   lease.lua
--@include lease.lua
--@include term.lua
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return 0
end
--@include keep_token.lua
return hold_term(ARGV[6], ARGV[7])
