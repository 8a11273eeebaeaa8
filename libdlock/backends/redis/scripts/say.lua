-- A client says what it has and waits for: see told.h.
--   KEYS: 1 its key, 2 the clients that do so, by when their keys end
--   ARGV: 1 who it is, 2 for how long this is so, in ms, 3 its uuid, 4 the lines
-- The set has the half of the uuid that is in the key's name. Ages in the lines count from the date that stands before them, which is the server's.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = now + ARGV[2]
redis.call('set', KEYS[1], ARGV[1] .. '\t\n' .. string.format('%.0f', now) .. ' ' .. ARGV[3] .. '\n' .. ARGV[4], 'PX', ARGV[2])
redis.call('zremrangebyscore', KEYS[2], '-inf', now)
redis.call('zadd', KEYS[2], ends, string.sub(ARGV[3], 1, 18))
if redis.call('pttl', KEYS[2]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[2], ARGV[2])
end
return 1
