-- Who is elected, and what does he publish?
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 what is published
--@include seen_hash.lua
local seen = seen_hash()
local data = redis.pcall('get', KEYS[3])
if seen[2] == 'election' or seen[2] == 'mutex' and (seen[1] == 0 or type(data) == 'string') then
    seen[2] = 'election'
    seen[6] = type(data) == 'string' and string.match(data, '^%S+ (.*)$') or ''
end
return seen
