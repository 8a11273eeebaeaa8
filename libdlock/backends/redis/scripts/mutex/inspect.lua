-- Who holds a lock?
--   KEYS: 1 the lock, 2 the counter of its tokens
--@include seen_hash.lua
return seen_hash()
