-- How long the counter of fencing tokens, KEYS[2], stays when nobody uses the lock any more.
--   ARGV: 4 that long, in ms; 0: for ever
-- Tokens follow the server's clock, and the counter's end by that clock lies behind its token: so when
-- the counter has gone the next token is larger all the same.
--
-- A counter without an end, or with a small number, may be one that Redisson's RFencedLock made, which
-- would begin at 1 again: it keeps what it has. To look for an end at each grant would cost as much as
-- the SET itself. So the first token in each quarter of that time looks, and puts the end off; until the
-- next one does three quarters at least are left.
local keep_ms = tonumber(ARGV[4])
local small = 1000000000000000 -- in us it is the year 2001

-- The counter's number becomes `token`, where it was `last`, or there was none.
local function write_token(token, last)
    if keep_ms == 0 then
        redis.call('set', KEYS[2], token)
        return
    end
    local quarter = keep_ms * 250
    if not last
        or last >= small and math.floor(last / quarter) ~= math.floor(token / quarter) then
        local time = redis.call('time')
        local ahead = math.max(token / 1000 - (time[1] * 1000 + time[2] / 1000), 0)
        local left = last and redis.call('pttl', KEYS[2]) or 0
        if left >= 0 and left < keep_ms + ahead then
            redis.call('set', KEYS[2], token, 'PX', string.format('%.0f', keep_ms + ahead))
            return
        end
    end
    if redis.pcall('set', KEYS[2], token, 'KEEPTTL').err then -- a server before 6.0
        redis.call('set', KEYS[2], token)
    end
end
