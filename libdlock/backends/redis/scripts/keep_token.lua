-- While a lock is renewed the counter of its tokens stays; see token_life.lua. It doesn't matter to the
-- renewal whether that can be done.
--   KEYS: 2 the counter, where it is to be looked after    ARGV: 4 how long it stays, in ms, or '0'
if KEYS[2] and ARGV[4] ~= '0' then
    local left = redis.pcall('pttl', KEYS[2])
    if type(left) == 'number' and left >= 0 and left < ARGV[4] * 3 / 4 then
        redis.pcall('pexpire', KEYS[2], ARGV[4])
    end
end
