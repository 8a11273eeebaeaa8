-- What is known of a grant of permits besides, which Redisson's layout has no room for: "ms text", since when it
-- is there, by the server's clock, and its lock.data. It lies in a key of our own beside it that ends with the
-- lease. Nothing depends on it: where it can't be written, or is gone, nobody is told. So it is none of the KEYS:
-- a user needs no right to it, and where a slot is being moved renewals don't wait for it.
--   @key the taken permits, {N}:timeout; @id one of the grant's, in hex
local function said_key(key, id)
    return 'dlock_permit:' .. string.sub(key, 1, -#':timeout' - 1) .. ':' .. string.sub(id, 1, 29)
end

-- As it stands behind what its client says of itself: see client_of.lua, and who.h.
local function with_said(key, id, client)
    local text = redis.pcall('get', said_key(key, id))
    local since, data = nil, nil
    if type(text) == 'string' then
        since, data = string.match(text, '^(%d+) (.*)$')
    end
    if not since then
        return client
    end
    return (client == '' and '\t\t' or client) .. '\t' .. since .. '\t' .. data
end
