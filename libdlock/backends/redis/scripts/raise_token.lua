-- Writes a token down that was decided elsewhere, unless a later one is; KEYS[2] is the counter.
local function raise_token(token)
    local last = redis.call('get', KEYS[2])
    if not last or (tonumber(last) or 0) < tonumber(token) then
        redis.call('set', KEYS[2], token)
    end
    return token
end
