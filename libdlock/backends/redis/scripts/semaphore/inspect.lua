-- How many permits are free? Who has the others isn't known.
--   KEYS: 1 free permits    ARGV: see permits.lua
--@include permits.lua

local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
local held = free and free < math.max(size, 1)
return { held and 1 or 0, 'semaphore', -1, free or -1, '' }
