-- For a lock that is written before what may fail: what `find` answers, a token, or nothing and why;
-- without a token the lock goes again.
local function token_or_undo(find)
    local fine, token, problem = pcall(find)
    if fine and token then
        return token
    end
    redis.call('del', KEYS[1])
    problem = fine and problem or token
    return type(problem) == 'table' and problem or redis.error_reply(problem)
end
