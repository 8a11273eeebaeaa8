-- Is the lock the owner's?
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner
if redis.call('get', KEYS[1]) == ARGV[2] then
    return 1
end
return 0
