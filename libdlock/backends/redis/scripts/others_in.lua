-- How many of other clients stand in a line, for inspect; -1 where the user may not look.
--   ARGV: 2 somebody of this client
local function others_in(line)
    local own, others = string.match(ARGV[2], '^[^:]*:') or ARGV[2], 0
    local members = redis.pcall('lrange', line, 0, -1)
    if members.err then
        return -1
    end
    for _, member in ipairs(members) do
        if string.sub(member, 1, #own) ~= own then
            others = others + 1
        end
    end
    return others
end
