-- Who holds a lock? A holder of another library has no name: its time stamp stands for it.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is    ARGV: 5 's' for seconds, else ms
--@include stamp_holder.lua
--@include client_of.lua

local who, value = holder()
if not who then
    return { 0, 'mutex', -1, -1, -1, '', {} }
end
local token = redis.pcall('get', KEYS[2])
token = who ~= value and type(token) == 'string' and token or ''
return { 1, 'mutex', -1, -1, -1, '', {}, who, token, math.ceil(end_of(value) - now), 1,
    client_of(ARGV[#ARGV], who) }
