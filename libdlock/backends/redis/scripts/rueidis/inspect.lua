-- Who holds a lock?
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--@include slots.lua
--@include client_of.lua

local who, left = holder()
if not who then
    return { 0, 'mutex', -1, -1, -1, '', {} }
end
local token = redis.pcall('get', KEYS[2])
return { 1, 'mutex', -1, -1, -1, '', {}, readable(who), type(token) == 'string' and token or '', left, 1,
    client_of(ARGV[#ARGV], who) }
