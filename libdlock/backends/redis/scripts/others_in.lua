-- How many of other clients stand in a line, for inspect; -1 where the user may not look. Behind that the
-- first of all who do: owner, client, and '' for since when, which this line doesn't know.
--   ARGV: 2 somebody of this client, the last: see client_of.lua
--@include client_of.lua
local function others_in(line)
    local own, others, first = string.match(ARGV[2], '^[^:]*:') or ARGV[2], 0, {}
    local members = redis.pcall('lrange', line, 0, -1)
    if members.err then
        return -1, first
    end
    for i, member in ipairs(members) do
        if string.sub(member, 1, #own) ~= own then
            others = others + 1
        end
        if i <= 64 then
            first[#first + 1] = member
            first[#first + 1] = client_of(ARGV[#ARGV], member)
            first[#first + 1] = ''
        end
    end
    return others, first
end
