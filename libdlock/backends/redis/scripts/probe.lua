-- Which of the commands that the other scripts call may this user not run?
--   ARGV: 1 name of a lock that nobody uses, 2 its channel or '', 3 the type of a lock's key,
--   4 'line' where there is one beside the lock
-- Answers the server's time (s, us), then the names of the commands. Redis checks the right after
-- the number of arguments and before anything is done, so each call here either has arguments
-- that the command itself refuses, or changes nothing.
--@include channel.lua
--@include denial.lua
local calls = {
    { 'time' },
    { 'get', ARGV[1] },
    { 'set', ARGV[1], '0', 'no-such-option' },
    { 'pexpire', ARGV[1], 'not-a-number' },
    { 'pttl', ARGV[1] },
    { 'del', ARGV[1] },
}
if ARGV[3] == 'hash' then
    calls[#calls + 1] = { 'hset', ARGV[1], 'field', 'value', 'odd' }
    calls[#calls + 1] = { 'hget', ARGV[1], 'field' }
    calls[#calls + 1] = { 'hexists', ARGV[1], 'field' }
    calls[#calls + 1] = { 'hdel', ARGV[1], 'field' }
end
if ARGV[4] == 'line' then -- rpush has no arguments that it would refuse
    calls[#calls + 1] = { 'exists', ARGV[1] }
    calls[#calls + 1] = { 'lpop', ARGV[1], 'not-a-number' }
    calls[#calls + 1] = { 'lpos', ARGV[1], 'element', 'no-such-option', '0' }
    calls[#calls + 1] = { 'lrem', ARGV[1], 'not-a-number', 'element' }
end
if ARGV[2] ~= '' then
    local how = string.byte(ARGV[2])
    if how ~= 1 then
        calls[#calls + 1] = { 'publish', name_of(ARGV[2]), '0' }
    end
    if how <= 2 then
        calls[#calls + 1] = { 'spublish', name_of(ARGV[2]), '0' }
    end
end
local answer = { 0, 0 }
for _, call in ipairs(calls) do
    local result = redis.pcall(unpack(call))
    if type(result) == 'table' and result.err then
        if denial(result) == '+' then
            answer[#answer + 1] = call[1]
        end
    elseif call[1] == 'time' then
        answer[1], answer[2] = tonumber(result[1]), tonumber(result[2])
    end
end
return answer
