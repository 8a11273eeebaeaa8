-- What these clients tell.
--   ARGV: 1 the beginning of their keys, 2 how much of each is read, then the halves of their uuids
-- Answers a text for each; '': it has gone, or nothing can be read there.
local told = {}
for i = 3, #ARGV do
    local text = redis.pcall('getrange', ARGV[1] .. ARGV[i], '0', ARGV[2])
    told[#told + 1] = type(text) == 'string' and text or ''
end
return told
