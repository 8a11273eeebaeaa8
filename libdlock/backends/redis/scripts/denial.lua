-- Which right an error complains of: '+' to a command, '~' to a key, '&' to a channel; '' none. The
-- first words are those of Redis 7.0 and older, the second ones those of newer servers.
local function denial(result)
    local why = type(result) == 'table' and result.err or ''
    for sign, words in pairs({
        ['+'] = { "can't run this command", 'no permissions to run' },
        ['~'] = { "can't access at least one", 'o permissions to access a key' },
        ['&'] = { "can't publish", 'o permissions to access a channel' },
    }) do
        for _, part in ipairs(words) do
            if string.find(why, part, 1, true) then
                return sign
            end
        end
    end
    return ''
end
