-- Which clients tell what they have?
--   ARGV: 1 where they stand (told.h), 2 how many at most, 3 only those whose keys end at this date or later; '': all
-- Answers the server's date in ms, how many there are (only with 3; -1: who asks has no right to that), then the half
-- of a uuid and when that key ends, in turn; or one text: why that can't be said.
local time = redis.call('time')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local from = ARGV[3] ~= '' and ARGV[3] or now
local clients = redis.pcall('zrangebyscore', ARGV[1], from, '+inf', 'withscores', 'limit', '0', ARGV[2])
if clients.err then
    return clients.err
end
local count = ARGV[3] ~= '' and redis.pcall('zcount', ARGV[1], now, '+inf')
table.insert(clients, 1, now)
table.insert(clients, 2, type(count) == 'number' and count or -1)
return clients
