-- Who holds a fair lock, and how many of other clients wait?
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 its line    ARGV: 2 somebody of this client
--@include seen_hash.lua
local seen = seen_hash()
local own, others = string.match(ARGV[2], '^[^:]*:') or ARGV[2], 0
for _, member in ipairs(redis.call('lrange', KEYS[3], 0, -1)) do
    if string.sub(member, 1, #own) ~= own then
        others = others + 1
    end
end
seen[3] = others
return seen
