-- Permits with leases, as Redisson's RPermitExpirableSemaphore has them: KEYS[2] is a sorted set of
-- ids, 16 raw bytes each, by the end of their leases in ms. An id follows from its owner, so a
-- request can be repeated.
--@include lease.lua
local never = 922337203685477 -- Redisson's score of a permit without an end

local function now_ms()
    local time = redis.call('time')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function ids_of(owner, count)
    local ids = {}
    for i = 1, count do
        local hex = string.sub(redis.sha1hex(owner .. ':' .. i), 1, 32)
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
