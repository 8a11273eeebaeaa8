-- Kept locks (lock.keep_ms): an owner whose number has 19 digits may have what it has beyond its last
-- release, until somebody asks for it. Its tokens are a block, see token.lua.
--   KEYS: 1 the lock, 3 the line    ARGV: 6 the terms, see next_owner.lua
local function keeps(owner)
    return #owner == 56 -- the uuid, a colon, the number
end

-- Since when the client of such an owner of its own is connected, see token.lua; of any other nothing.
local function since(owner)
    return keeps(owner) and tonumber(string.match(ARGV[6], '%d+$')) or nil
end

-- What the owner is answered that has the lock; one that keeps it hears whether others are in the line:
-- "first token, last token, 0 or 1".
local function answer_to(owner, token)
    if keeps(owner) and type(token) == 'string' then
        return token .. ' ' .. redis.call('exists', KEYS[3])
    end
    return token
end

-- Whoever keeps the lock is told that another client wants it. Without the right to see who that is, or to tell
-- it, it isn't told.
local function ask_for_it()
    local owner = redis.pcall('hkeys', KEYS[1])[1] or ''
    local client, number = string.match(owner, '^(.+):(%d+)$')
    if client and keeps(owner) and client ~= string.match(ARGV[2], '^(.+):%d+$') then
        redis.pcall('publish', 'dlock_client:' .. client, 'asked ' .. number .. ' ' .. KEYS[1])
    end
end
