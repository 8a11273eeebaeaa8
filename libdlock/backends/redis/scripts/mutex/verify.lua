-- Is the lock the owner's?
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner
return redis.call('hexists', KEYS[1], ARGV[2])
