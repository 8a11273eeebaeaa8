-- Who has these locks?
--   ARGV: 1 see client_of.lua, then names. They come from SCAN, so they can't be declared: some may
--   be out of the user's reach, and are passed over.
-- Answers name, owner, PTTL and client of each, in turn. Any string may be a lock; that these are, the
-- beginning of their names says.
--@include client_of.lua
local found = {}
for i = 2, #ARGV do
    local name = ARGV[i]
    local owner = redis.pcall('get', name)
    if type(owner) == 'string' then
        found[#found + 1] = name
        found[#found + 1] = owner
        found[#found + 1] = redis.call('pttl', name)
        found[#found + 1] = client_of(ARGV[1], owner)
    end
end
return found
