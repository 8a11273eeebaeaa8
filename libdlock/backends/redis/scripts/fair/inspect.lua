-- Who holds a lock with a line, and how many of other clients wait?
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 its line    ARGV: 2 somebody of this client
--@include seen_hash.lua
--@include others_in.lua
local seen = seen_hash()
seen[3] = others_in(KEYS[3])
return seen
