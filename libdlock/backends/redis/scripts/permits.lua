-- What the scripts of both semaphores share. KEYS[1] is the number of free permits.
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 how many permits the owner takes, 5 size of the
--   semaphore, 0 where the caller doesn't say
--@include channel.lua
local take, size = tonumber(ARGV[4]), tonumber(ARGV[5])

-- How many are free: nil when there is no such semaphore.
local function free_permits()
    local text = redis.call('get', KEYS[1])
    if not text then
        return nil
    end
    if not string.find(text, '^%-?%d+$') then
        return nil, 'DLOCKKIND the value under this name is no number of permits'
    end
    if #text > 11 or tonumber(text) > 2147483647 then
        return nil, 'DLOCKMANY ' .. text .. ' permits are free, and there can be 2147483647'
    end
    return tonumber(text)
end

-- Tells how many are free, as Redisson does: a peer wakes as many of its waiters. Answers 1, or 2
-- when the user has no right to the channel.
local function tell_free(free)
    if type(publish(ARGV[1], string.format('%.0f', free))) == 'table' then
        return 2
    end
    return 1
end

-- Handles that disagree on the size are told both.
local function wrong_size(total)
    return 'DLOCKSIZE the semaphore has ' .. total .. ' permits, lock.permits says ' .. ARGV[5]
end

-- Makes the semaphore, when the caller says how large; @taken are out already.
local function make_permits(taken)
    if size == 0 then
        return nil, "DLOCKNONE the semaphore doesn't exist; set lock.permits to make it"
    end
    if taken > size then
        return nil, wrong_size(taken)
    end
    redis.call('set', KEYS[1], size - taken)
    if size > taken then
        tell_free(size - taken)
    end
    return size - taken
end
