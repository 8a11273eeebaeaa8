-- What the client of an owner "<uuid>:<number>", or of a permit of ours, says of itself: see client_key.c; '' is
-- nothing. Owners of other libraries have no such key.
--   @begin the beginning of clients' keys; '': none is looked for
local said, asked = {}, 0

local function client_of_half(begin, half)
    if begin == '' or not half then
        return ''
    end
    if not said[half] and asked < 128 then
        local text = redis.pcall('get', begin .. half)
        -- name, host and pid; behind the first line it says what it has: told.h
        said[half] = type(text) == 'string' and string.match(text, '^[^\n\t]*\t?[^\n\t]*\t?[^\n\t]*') or ''
        asked = asked + 1
    end
    return said[half] or ''
end

local function client_of(begin, owner)
    return client_of_half(begin, string.match(owner, '^(%x+%-%x+%-%x+)%-%x+%-%x+:%d+$'))
end

-- @id in hex, see permit_ids.lua. A foreign one is random, and leads nowhere.
local function client_of_permit(begin, id)
    return client_of_half(begin, table.concat({ string.sub(id, 1, 8), string.sub(id, 9, 12), string.sub(id, 13, 16) }, '-'))
end
