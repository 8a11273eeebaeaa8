-- Which of these hashes are locks?
--   ARGV: names. They come from SCAN, so they can't be declared: some may be out of the user's
--   reach, and are passed over.
-- Answers name, owner and PTTL of each lock, in turn. A lock is a hash of one field, its owner, or
-- of `mode` and the owners of a read/write lock, one of whom stands for all.
local function owner_of(fields, mode)
    for _, field in ipairs(fields) do
        if string.find(field, ':%d+$') or mode == 'write' and string.find(field, ':%d+:write$') then
            return (string.gsub(field, ':write$', ''))
        end
    end
end

local found = {}
for _, name in ipairs(ARGV) do
    local size = redis.pcall('hlen', name)
    local mode = type(size) == 'number' and size > 1 and redis.call('hget', name, 'mode')
    if size == 1 or mode == 'read' or mode == 'write' then
        local owner = owner_of(redis.call('hkeys', name), mode)
        if owner then
            found[#found + 1] = name
            found[#found + 1] = owner
            found[#found + 1] = redis.call('pttl', name)
        end
    end
end
return found
