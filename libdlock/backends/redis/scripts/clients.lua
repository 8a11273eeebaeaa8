-- Which clients tell what they have?
--   ARGV: 1 where they stand (told.h), 2 how many at most
-- Answers the server's date in ms, then the halves of their uuids; or one text: why that can't be said.
local time = redis.call('time')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local clients = redis.pcall('zrangebyscore', ARGV[1], now, '+inf', 'limit', '0', ARGV[2])
if clients.err then
    return clients.err
end
table.insert(clients, 1, now)
return clients
