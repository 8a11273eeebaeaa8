-- Read/write locks in the layout of Redisson's RReadWriteLock.
--   KEYS[1], a hash: mode -> read or write, reader -> count, writer .. ':write' -> count
-- Our readers and writers have a count of 1: each grant is an owner of its own.
--@include lease_key.lua
--@include tell.lua

-- How many others there are, and how long the longest lease of their readers lasts; see lease_of.
local function others()
    local hash = redis.call('hgetall', KEYS[1])
    local count, longest = 0, 0
    for i = 1, #hash, 2 do
        if hash[i] ~= 'mode' then
            count = count + 1
            local left = lease_of(hash[i], hash[i + 1])
            if left == -1 or longest == -1 then
                longest = -1
            else
                longest = math.max(longest, left)
            end
        end
    end
    return count, longest
end

-- A holder's field has been removed: what of the lock stays? Answers as tell does. A reader whose
-- leases are over is dead and keeps nothing; its field stays as long as others read. A hash
-- without an end must have one from somebody whose lease we don't know.
local function let_go(wrote)
    if not wrote and redis.call('hget', KEYS[1], 'mode') == 'write' then
        return 1
    end
    local count, longest = others()
    local ends = redis.call('pttl', KEYS[1]) >= 0
    if count == 0 or (longest == 0 and ends) then
        redis.call('del', KEYS[1])
        return tell(ARGV[1], wrote and '1' or '0')
    end
    if longest > 0 and ends then
        redis.call('pexpire', KEYS[1], longest)
    end
    if not wrote then
        return 1
    end
    redis.call('hset', KEYS[1], 'mode', 'read')
    return tell(ARGV[1], '1')
end
