--@include already_mine.lua

-- What the giver had is the importer's, as `write` does it, under a new token.
local function take_over(write)
    local token, problem = next_token(redis.call('get', KEYS[2]))
    if problem then
        return redis.error_reply(problem)
    end
    write()
    return token
end
