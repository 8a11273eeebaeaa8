-- Open turns: now and then the lock is put up for all, and libdlock's clients hold back for a
-- moment, because Redisson's waiters, who know no line, need longer to come.
--   KEYS: 3 the line, 4 the mark of an open turn    ARGV: 1 channel
--@include listeners.lua
local grace_ms = 5  -- so long ours hold back
local rest_ms = 100 -- and so long there is no other one, when nobody came

-- Does anybody wait who isn't in the line? All who wait listen to the channel, and of ours some
-- still do who don't wait any more. `ourselves`: how often the one who asks listens.
local function others_wait(ourselves)
    local heard = listeners({ ARGV[1] })
    if heard.err then -- no right to know
        return true
    end
    local line = redis.pcall('llen', KEYS[3])
    return heard[2] > (type(line) == 'number' and line or 0) + ourselves
end

-- How many ms the mark has left; -2: there is none. More than it is made with says that the clock was
-- set back since: the turn is over, or nearly, and a mark that lasts on would keep ours from a free
-- lock for as long, also when the turn was in vain, and Redisson's from the next one.
local function mark_left()
    local left = redis.call('pttl', KEYS[4])
    if left > grace_ms + rest_ms then
        redis.call('del', KEYS[4])
        return -2
    end
    return left
end

-- For how many ms has one of ours to hold back? `free`: the lock is, and nobody else is known to
-- have had it since. Else somebody came, unless that was one of ours, and the mark goes.
local function hold_back(free)
    local left = mark_left()
    if free and left > rest_ms then
        return left - rest_ms
    end
    if free and left > 0 then
        redis.call('set', KEYS[4], 'in vain', 'px', left)
    elseif left > 0 and redis.call('get', KEYS[4]) == '' then
        redis.call('del', KEYS[4])
    end
    return 0
end
