-- Makes a reader's lease last, see lease.lua. Of an owner that writes it makes a reader.
--   KEYS: 1 the lock, 2 the counter of its tokens
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see keep_token.lua, 5 the same as 3, of the reader's own
--   key, 6 and 7: see lease.lua
-- A reader is who has a field: its own key may be gone before its time, because readers of old
-- Redisson versions set those of all others to their own lease.
--@include lease.lua
--@include rw.lua

local turns = redis.call('hexists', KEYS[1], ARGV[2]) == 0
if turns and redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 0 then
    return 0
end
--@include keep_token.lua
local own_key, own_lease = lease_key(ARGV[2], 1), tonumber(ARGV[5])
local left, answer = redis.call('pttl', KEYS[1]), 1
if turns then -- what is left is a lease of its own, and its token the last there was
    own_lease = math.max(own_lease, left)
    redis.call('set', own_key, redis.call('get', KEYS[2]) or 1, 'px', own_lease)
    redis.call('hset', KEYS[1], 'mode', 'read', ARGV[2], 1)
    redis.call('hdel', KEYS[1], ARGV[2] .. ':write')
elseif redis.call('pttl', own_key) < own_lease then
    redis.call('set', own_key, redis.call('get', own_key) or 1, 'px', own_lease)
else
    answer = lengthen(own_key, ARGV[5], ARGV[6], ARGV[7])
end
if left < tonumber(ARGV[3]) and (turns or left ~= -1) then
    redis.call('pexpire', KEYS[1], ARGV[3])
elseif ARGV[7] ~= '0' and left > 0 then -- cut: the longest of the readers' leases is the lock's
    local _, longest = others()
    if longest >= tonumber(ARGV[3]) and longest < left then
        redis.call('pexpire', KEYS[1], longest)
    end
end
return turns and tell(ARGV[1], '1') or answer
