-- Who holds a lock?
--   KEYS: 1 the lock, 2 the counter of its tokens
-- Answers PTTL, the last token or '', then field and value of the hash, in turn.
local seen = { redis.call('pttl', KEYS[1]), '' }
local token = redis.pcall('get', KEYS[2])
if type(token) == 'string' then
    seen[2] = token
end
local hash = redis.call('hgetall', KEYS[1])
for i = 1, math.min(#hash, 128) do
    seen[#seen + 1] = hash[i]
end
return seen
