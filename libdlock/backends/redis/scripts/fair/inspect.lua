-- Who holds a lock with a line, who waits, and how many of other clients?
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 its line
--   ARGV: 2 somebody of this client, the last: see client_of.lua
--@include seen_hash.lua
--@include others_in.lua
local seen = seen_hash()
if seen[2] ~= 'condition' and seen[2] ~= 'semaphore' and not seen.err then
    seen[3], seen[7] = others_in(KEYS[3])
end
return seen
