-- How many permits are free? Who has the others isn't known, nor how many there are in all but by who
-- asks.
--   KEYS: 1 free permits    ARGV: see permits.lua
--@include permits.lua

local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
local held = free and free < math.max(size, 1)
local all = size > 0 and math.max(size, free or 0) or -1
local left = free and math.max(free, 0) or all
return { held and 1 or 0, 'semaphore', -1, all, left, '', {} }
