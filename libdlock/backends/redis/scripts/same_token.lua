--@include token.lua

-- Could it be one of ours?
local function is_token(text)
    return text and #text > 1 and #text <= 16 and string.find(text, '^%d+$')
end

-- The one of a grant that is asked for again, because the first answer was lost. No grant of ours
-- came between, so the counter still says it, unless somebody removed or overwrote it. A block (`since`) is a new
-- one: nothing of the first was handed out.
local function same_token(since)
    local token = redis.call('get', KEYS[2])
    if is_token(token) and not since then
        return token
    end
    return next_token(token, since)
end
