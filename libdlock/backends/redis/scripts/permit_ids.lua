-- Permits with leases, as Redisson's RPermitExpirableSemaphore has them: KEYS[2] is a sorted set of
-- ids, 16 raw bytes each, by the end of their leases in ms. An id of ours follows from its owner,
-- "<uuid>:<number>", so a request can be repeated: 8 bytes are the first half of the uuid, by which
-- client_of.lua finds the client, 6.5 the number, which counts from 1, and 1.5 which of the grant's
-- permits it is.
--@include lease.lua
local never = 922337203685477 -- Redisson's score of a permit without an end

local function now_ms()
    local time = redis.call('time')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- None of what is no such owner. There are 4096 at most: see acquire.lua.
local function ids_of(owner, count)
    local ids = {}
    local half, number = string.match(owner, '^(%x+%-%x+%-%x+)%-%x+%-%x+:(%d+)$')
    for i = 1, half and count or 0 do
        local high, low = math.floor(number / 16777216), number % 16777216
        local hex = string.gsub(half, '%-', '') .. string.format('%07x%06x%03x', high, low, i - 1)
        ids[i] = string.gsub(hex, '%x%x', function(byte)
            return string.char(tonumber(byte, 16))
        end)
    end
    return ids
end

local function hex_of(id)
    return (string.gsub(id, '.', function(char)
        return string.format('%02x', string.byte(char))
    end))
end

-- How many of the ids are taken and not over at @now, and how many are there at all.
local function living(ids, now)
    local alive, there = 0, 0
    for _, id in ipairs(ids) do
        local ends = redis.call('zscore', KEYS[2], id)
        if ends then
            there = there + 1
        end
        if ends and tonumber(ends) > now then
            alive = alive + 1
        end
    end
    return alive, there
end

-- Makes the leases of these last from @now on; see lease.lua. Redisson's form of a number has no
-- exponent.
local function hold(ids, now, ms, most, seen)
    local answer = 1
    for _, id in ipairs(ids) do
        local last = tonumber(redis.call('zscore', KEYS[2], id) or now)
        local lease, ends = new_lease(last - now, ms, most, seen)
        if lease then
            redis.call('zadd', KEYS[2], string.format('%.0f', now + lease), id)
        end
        answer = ends or answer
    end
    return answer
end

-- Takes these out; answers how many there were.
local function remove(ids)
    local count = 0
    for _, id in ipairs(ids) do
        count = count + redis.call('zrem', KEYS[2], id)
    end
    return count
end

-- They are free again. What a script does isn't rolled back: a permit too few is better than one
-- too many, so they are counted after they were taken out. A semaphore that was deleted isn't made
-- again, its size would be wrong.
local function count_free(free, count)
    if not free or count == 0 then
        return free
    end
    return redis.call('incrby', KEYS[1], count)
end
