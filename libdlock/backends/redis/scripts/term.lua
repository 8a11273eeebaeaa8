-- The term of who is elected. What it publishes lasts as long, and is put back where it was evicted.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 what is published
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 what to publish
local elected = '0' -- the count of who has the lock as an election

local function hold_term(most, seen)
    local done = lengthen(KEYS[1], ARGV[3], most, seen)
    local left = math.min(redis.call('pttl', KEYS[1]), furthest)
    if redis.call('pttl', KEYS[3]) ~= left then
        redis.call('set', KEYS[3], ARGV[2] .. ' ' .. ARGV[5], 'PX', string.format('%.0f', left))
    end
    return done
end
