-- Is the lock the owner's? The write side too: it may be about to turn into the read side.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    return 1
end
return redis.call('hexists', KEYS[1], ARGV[2] .. ':write')
