-- A lock of rueidislock: most of an odd number of keys, each with its owner as the value.
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--@include lease.lua
local slots, most = {}, math.floor((#KEYS - 2) / 2) + 1
for i = 3, #KEYS do
    slots[i - 2] = KEYS[i]
end

-- Those that this owner has, and those that nobody has.
local function count(owner)
    local mine, free = {}, {}
    for _, slot in ipairs(slots) do
        local value = redis.call('get', slot)
        if value == owner then
            mine[#mine + 1] = slot
        elseif not value then
            free[#free + 1] = slot
        end
    end
    return mine, free
end

-- Makes these the owner's for so many ms at least; see lease.lua.
local function hold(which, owner, ms, at_most, seen)
    local answer = 1
    for _, slot in ipairs(which) do
        local lease, ends = new_lease(redis.call('pttl', slot), ms, at_most, seen)
        if lease then
            redis.call('set', slot, owner, 'PX', string.format('%.0f', lease))
        end
        answer = ends or answer
    end
    return answer
end

local function drop(which)
    for _, slot in ipairs(which) do
        redis.call('del', slot)
    end
end

-- Who has most of them, and for how long yet: -1 where a key has no end.
local function holder()
    local votes, left = {}, {}
    for _, slot in ipairs(slots) do
        local value = redis.call('get', slot)
        if value then
            votes[value] = (votes[value] or 0) + 1
            left[value] = math.min(left[value] or math.huge, redis.call('pttl', slot))
            if votes[value] >= most then
                return value, left[value]
            end
        end
    end
end

-- A value may be any bytes: those of rueidislock are told in hex.
local function readable(value)
    if not string.find(value, '[^%w:_.-]') then
        return value
    end
    return (string.gsub(value, '.', function(byte)
        return string.format('%02x', string.byte(byte))
    end))
end
