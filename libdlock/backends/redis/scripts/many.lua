-- Renews many locks of one form. The text of the form's renew.lua comes into the function: it sees
-- the KEYS and ARGV of one lock.
--   KEYS: of all locks, in turn    ARGV: 1 keys of a lock, 2 arguments of a lock, then those of
--   all locks, in turn
-- Answers what renew answers, or its error, for each: what fails for one doesn't stop the others.
local function one(KEYS, ARGV)
--@body
end

local keys, args, answers = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
for i = 0, #KEYS / keys - 1 do
    local fine, answer = pcall(one, { unpack(KEYS, i * keys + 1, (i + 1) * keys) },
        { unpack(ARGV, i * args + 3, (i + 1) * args + 2) })
    if not fine and type(answer) ~= 'table' then
        answer = { err = answer } -- as Redis 6 throws it
    end
    answers[i + 1] = answer
end
return answers
