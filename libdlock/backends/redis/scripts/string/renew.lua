-- Lengthens a lease, never shortens it.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner, 3 lease in ms
if redis.call('get', KEYS[1]) ~= ARGV[2] then
    return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return 1
