-- Which of these sorted sets are the taken permits of semaphores?
--   ARGV: 1 see client_of.lua, then names. They come from SCAN, so they can't be declared: some may
--   be out of the user's reach, and are passed over.
-- Answers name, id, ms left and client of the permit that ends first, and how many permits are taken, of each
-- semaphore that anybody has permits of, in turn. The number of free ones says that it is one, and which of two
-- names is its: {a}:timeout is that of "a", and of "{a}".
--@include seen_permits.lua
local function semaphore_of(key)
    for _, form in ipairs({ '^{([^{]+)}:timeout$', '^(.*{.*):timeout$' }) do
        local name = string.match(key, form)
        local free = name and redis.pcall('get', name)
        if type(free) == 'string' and #free < 12 and string.find(free, '^%-?%d+$') then
            return name, tonumber(free)
        end
    end
end

local found = {}
for i = 2, #ARGV do
    local name, free = semaphore_of(ARGV[i])
    local fine, seen, taken = false, nil, nil
    if name then
        fine, seen, taken = pcall(seen_permits, free, ARGV[i], 0, ARGV[1], 1)
    end
    if fine and seen[1] == 1 then
        found[#found + 1] = name
        found[#found + 1] = seen[8]
        found[#found + 1] = seen[10]
        found[#found + 1] = seen[12]
        found[#found + 1] = taken
    end
end
return found
