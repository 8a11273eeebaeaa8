-- Readers of Redisson's RReadWriteLock: each level of a reader's hold has a key of its own, which
-- lasts as long as its lease. The names begin with the lock's; Redisson's test for a hash tag is
-- only "contains {".
local base = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'

local function lease_key(owner, level)
    return base .. ':' .. owner .. ':rwlock_timeout:' .. level
end

-- How long a holder's leases last: 0 they are over, -1 one has no end.
local function lease_of(owner, count)
    count = tonumber(count) or 0 -- that of `mode` is no number
    if count > 100000 then
        return -1 -- nobody reads so deep: unknown, and not worth standing still for
    end
    local longest = 0
    for level = 1, count do
        local left = redis.call('pttl', lease_key(owner, level))
        if left == -1 then
            return -1
        end
        longest = math.max(longest, left)
    end
    return longest
end
