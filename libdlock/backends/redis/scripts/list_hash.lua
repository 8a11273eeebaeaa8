-- Which of these hashes are locks?
--   ARGV: 1 see client_of.lua, then names. They come from SCAN, so they can't be declared: some may
--   be out of the user's reach, and are passed over.
-- Answers name, owner, PTTL and client of each lock, in turn. A lock is a hash of one field, its owner, or
-- of `mode` and the owners of a read/write lock, one of whom stands for all.
--@include client_of.lua
local function owner_of(fields, mode)
    for _, field in ipairs(fields) do
        if string.find(field, ':%d+$') or mode == 'write' and string.find(field, ':%d+:write$') then
            return (string.gsub(field, ':write$', ''))
        end
    end
end

local found = {}
for i = 2, #ARGV do
    local name = ARGV[i]
    local size = redis.pcall('hlen', name)
    local mode = type(size) == 'number' and size > 1 and redis.call('hget', name, 'mode')
    if size == 1 or mode == 'read' or mode == 'write' then
        local owner = owner_of(redis.call('hkeys', name), mode)
        if owner then
            found[#found + 1] = name
            found[#found + 1] = owner
            found[#found + 1] = redis.call('pttl', name)
            found[#found + 1] = client_of(ARGV[1], owner)
        end
    end
end
return found
