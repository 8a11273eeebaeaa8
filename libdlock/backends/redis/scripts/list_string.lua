-- Who has these locks?
--   ARGV: names. They come from SCAN, so they can't be declared: some may be out of the user's
--   reach, and are passed over.
-- Answers name, owner and PTTL of each, in turn. Any string may be a lock; that these are, the
-- beginning of their names says.
local found = {}
for _, name in ipairs(ARGV) do
    local owner = redis.pcall('get', name)
    if type(owner) == 'string' then
        found[#found + 1] = name
        found[#found + 1] = owner
        found[#found + 1] = redis.call('pttl', name)
    end
end
return found
