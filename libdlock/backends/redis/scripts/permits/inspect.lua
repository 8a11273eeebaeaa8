-- Who has permits?
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua
--@include permits.lua
--@include seen_permits.lua

local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
return seen_permits(free, KEYS[2], size, ARGV[#ARGV], 64, true)
