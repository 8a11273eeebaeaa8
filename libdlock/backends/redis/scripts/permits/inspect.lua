-- Who has permits? Changes nothing: what is over is counted as free.
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua
-- Answers held, kind, waiters, permits (how many there are), how many of them are free (-1: no such
-- semaphore) and data, no line, then of each permit: its id in hex as owner, no token, ms left (-1: no end),
-- count, no client.
--@include permits.lua
--@include permit_ids.lua

local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
local now = now_ms()
local over = redis.call('zcount', KEYS[2], 0, now)
local taken = redis.call('zcard', KEYS[2]) - over
local all = size > 0 and size or -1
if free then
    all = math.max(free + over + taken, 0)
end
-- A peer may have made it smaller than what is taken.
local left = all < 0 and -1 or math.max(all - taken, 0)
local seen = { taken > 0 and 1 or 0, 'semaphore', -1, all, left, '', {} }
local permits = redis.call('zrange', KEYS[2], over, over + 63, 'WITHSCORES')
for i = 1, #permits, 2 do
    local ends = tonumber(permits[i + 1])
    seen[#seen + 1] = hex_of(permits[i])
    seen[#seen + 1] = ''
    seen[#seen + 1] = ends >= never and -1 or ends - now
    seen[#seen + 1] = 1
    seen[#seen + 1] = '' -- an id tells nothing of whose it is
end
return seen
