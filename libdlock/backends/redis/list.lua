-- Which of these hashes are locks?
--   ARGV: names. They come from SCAN, so they can't be declared: some may be out of the user's
--   reach, and are passed over.
-- Answers name, owner and PTTL of each lock, in turn. A lock is a hash of one field, its owner.
local found = {}
for _, name in ipairs(ARGV) do
    if redis.pcall('hlen', name) == 1 then
        local owner = redis.call('hkeys', name)[1]
        if string.find(owner, ':%d+$') then
            found[#found + 1] = name
            found[#found + 1] = owner
            found[#found + 1] = redis.call('pttl', name)
        end
    end
end
return found
