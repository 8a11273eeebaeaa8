--   KEYS: 1 the lock, 2 the counter of its tokens
--@include token.lua

-- The lock, which is nobody's, is the owner's. Answers the token, or nothing and the problem. `since`: see
-- token.lua.
local function appoint(owner, lease, since)
    local last = redis.pcall('get', KEYS[2])
    if type(last) == 'table' then
        return nil, last.err
    end
    local token, problem = next_token(last, since)
    if not token then
        return nil, problem
    end
    local done = redis.pcall('hset', KEYS[1], owner, 1)
    if type(done) ~= 'table' then
        done = redis.pcall('pexpire', KEYS[1], lease)
    end
    if type(done) == 'table' then
        redis.call('del', KEYS[1]) -- better no lock than one that never ends
        return nil, done.err
    end
    return token
end
