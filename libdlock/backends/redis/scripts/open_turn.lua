-- Open turns: now and then the lock is put up for all, and libdlock's clients hold back for a
-- moment, because Redisson's waiters, who know no line, need longer to come.
--   KEYS: 3 the line, 4 the mark of an open turn    ARGV: 1 channel
--@include listeners.lua
local grace_ms = 5  -- so long ours hold back
local rest_ms = 100 -- and so long there is no other one, when nobody came
local most_ms = 60000 -- DLK_REDIS_MOMENT_MAX: no client believes in a longer one

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

-- For how many ms has one of ours to hold back? `free`: the lock is, and nobody else is known to
-- have had it since. Else somebody came, unless that was one of ours, and the mark goes.
local function hold_back(free)
    local left = redis.call('pttl', KEYS[4])
    if left > most_ms then -- the clock was set back: it is over, or nearly
        redis.call('del', KEYS[4])
        left = 0
    end
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
