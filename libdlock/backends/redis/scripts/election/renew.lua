-- Lengthens a term, never shortens it; what is published lasts as long.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 what is published
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 what to publish
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('set', KEYS[3], ARGV[2] .. ' ' .. ARGV[4], 'PX', ARGV[3])
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return 1
