-- Which of the commands that the other scripts call may this user not run?
--   ARGV: 1 name of a lock that nobody uses, 2 its channel
-- Answers the server's time (s, us), then the names of the commands. Redis checks the right after
-- the number of arguments and before anything is done, so each call here either has arguments
-- that the command itself refuses, or changes nothing.
local calls = {
    { 'time' },
    { 'get', ARGV[1] },
    { 'set', ARGV[1], '0', 'no-such-option' },
    { 'hset', ARGV[1], 'field', 'value', 'odd' },
    { 'hget', ARGV[1], 'field' },
    { 'hexists', ARGV[1], 'field' },
    { 'hdel', ARGV[1], 'field' },
    { 'pexpire', ARGV[1], 'not-a-number' },
    { 'pttl', ARGV[1] },
    { 'del', ARGV[1] },
    { 'publish', ARGV[2], '0' },
}
local answer = { 0, 0 }
for _, call in ipairs(calls) do
    local result = redis.pcall(unpack(call))
    if type(result) == 'table' and result.err then
        if string.find(result.err, "can't run this command", 1, true) then
            answer[#answer + 1] = call[1]
        end
    elseif call[1] == 'time' then
        answer[1], answer[2] = tonumber(result[1]), tonumber(result[2])
    end
end
return answer
