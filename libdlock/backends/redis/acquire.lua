-- Takes a lock in Redisson's layout, with a fencing token.
--   KEYS: 1 the lock (hash owner -> count), 2 the counter of its tokens
--   ARGV: 1 owner, 2 lease in ms
-- Answers the token as text when the lock is (or was already) the owner's, else the PTTL of the
-- holder as a number. A script that stops half-way isn't rolled back, so whatever may fail comes
-- before the lock's own key.

-- max(last + 1, server's clock in us): later than all before it, and also after the counter was
-- lost. Numbers are doubles here, exact below 2^53.
local function next_token(last)
    local time = redis.call('time')
    local token = time[1] * 1000000 + time[2]
    if last then
        if not string.find(last, '^%d+$') then
            return nil, 'DLOCKTOKEN the counter of fencing tokens holds something else'
        end
        if #last > 16 or tonumber(last) >= 9007199254740990 then
            return nil, 'DLOCKFULL the counter of fencing tokens is at its end'
        end
        if tonumber(last) >= token then
            token = tonumber(last) + 1
        end
    end
    token = string.format('%.0f', token)
    redis.call('set', KEYS[2], token)
    return token
end

local left = redis.call('pttl', KEYS[1])
if left == -2 then
    local token, problem = next_token(redis.call('get', KEYS[2]))
    if problem then
        return redis.error_reply(problem)
    end
    redis.call('hset', KEYS[1], ARGV[1], 1)
    local done = redis.pcall('pexpire', KEYS[1], ARGV[2])
    if done ~= 1 then
        redis.call('del', KEYS[1]) -- better no lock than one that never ends
        return done
    end
    return token
end

if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
    -- Asked again, because the first answer was lost. No grant came between, so the counter still
    -- says our token, unless somebody removed it.
    local token, problem = redis.call('get', KEYS[2]), nil
    if not token then
        token, problem = next_token(nil)
    elseif not string.find(token, '^%d+$') then
        problem = 'DLOCKTOKEN the counter of fencing tokens holds something else'
    end
    if problem then
        return redis.error_reply(problem)
    end
    if left < tonumber(ARGV[2]) then
        redis.call('pexpire', KEYS[1], ARGV[2])
    end
    return token
end
local mode = redis.call('hget', KEYS[1], 'mode')
if mode then
    return redis.error_reply('DLOCKKIND a read/write lock is here, in mode ' .. mode)
end
return left
