-- Of who acquires or imports what it has already, because an earlier answer was lost: the same token,
-- and a whole lease from now on, both or an error. The client counts its lease from the request that
-- is answered with a token; a script that had only the first of them would make it believe too long.
--@include same_token.lua
--@include lease.lua

-- `hold` makes it last; without one the lock is the key. `since`: see token.lua.
local function already_mine(hold, since)
    local token, problem = same_token(since)
    if problem then
        return redis.error_reply(problem)
    end
    if hold then
        hold()
    else
        lengthen(KEYS[1], ARGV[3])
    end
    return token
end
