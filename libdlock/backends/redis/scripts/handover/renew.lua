-- As mutex/renew.lua. One that keeps its lock has more KEYS, 2 the counter of its tokens and 3 the line, and
-- is answered "answer, first token, last token, 0 or 1", with more tokens and whether others are in the line.
local function renew()
--@include mutex/renew.lua
end
local answer = renew()
if answer == 0 or not KEYS[3] then
    return answer
end
--@include token.lua
--@include keeps.lua
-- What the tokens come to doesn't matter to the renewal.
local fine, block = pcall(next_token, redis.pcall('get', KEYS[2]) or nil, since(ARGV[2]))
if not fine or not block then
    return answer
end
return string.format('%.0f', answer) .. ' ' .. block .. ' ' .. redis.call('exists', KEYS[3])
