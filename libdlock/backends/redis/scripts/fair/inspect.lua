-- Who holds a fair lock, and how many wait?
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 its line
--@include seen_hash.lua
local seen = seen_hash()
seen[3] = redis.call('llen', KEYS[3])
return seen
