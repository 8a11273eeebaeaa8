-- Lengthens a lease, never shortens it.
--   KEYS: 1 the lock    ARGV: 1 owner, 2 lease in ms
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
