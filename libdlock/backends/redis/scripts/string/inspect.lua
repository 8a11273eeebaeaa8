-- Who holds a lock?
--   KEYS: 1 the lock, 2 the counter of its tokens
-- Answers held, kind, waiters, permits, free ones and data (-1 and '' are "no such thing"), no line, then
-- the holder: owner, token, ms left, count, client.
--@include client_of.lua
local token = redis.pcall('get', KEYS[2])
if type(token) ~= 'string' then
    token = ''
end
local owner = redis.call('get', KEYS[1])
if not owner then
    return { 0, 'mutex', -1, -1, -1, '', {} }
end
return { 1, 'mutex', -1, -1, -1, '', {}, owner, token, redis.call('pttl', KEYS[1]), 1,
    client_of(ARGV[#ARGV], owner) }
