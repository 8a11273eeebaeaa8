-- What the client of an owner "<uuid>:<number>" says of itself: see client_key.c; '' is nothing. Owners of
-- other libraries have no such key.
--   @begin the beginning of clients' keys; '': none is looked for
local said, asked = {}, 0

local function client_of(begin, owner)
    local uuid = string.match(owner, '^(%x+%-%x+%-%x+%-%x+%-%x+):%d+$')
    if begin == '' or not uuid then
        return ''
    end
    if not said[uuid] and asked < 128 then
        local text = redis.pcall('get', begin .. uuid)
        said[uuid] = type(text) == 'string' and text or ''
        asked = asked + 1
    end
    return said[uuid] or ''
end
