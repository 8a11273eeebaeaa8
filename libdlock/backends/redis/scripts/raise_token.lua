-- Writes a token down that was decided elsewhere, unless a later one is; KEYS[2] is the counter.
--@include token_life.lua
local function raise_token(token)
    local last = tonumber(redis.call('get', KEYS[2]) or nil)
    if not last or last < tonumber(token) then
        write_token(token, last)
    end
    return token
end
