-- Which of the commands that the other scripts call may this user not run?
--   ARGV: 1 name of a lock that nobody uses, 2 its channel or '', 3 the type of a lock's key,
--   4 'line' where there is one beside the lock, 'fair' where that is a fair lock's
-- Answers the server's time (s, us), then the names of the commands; last 1 when no lock but one
-- that hands over needs these, and the user may have fair ones. Redis checks the right after
-- the number of arguments and before anything is done, so each call here either has arguments
-- that the command itself refuses, or changes nothing.
--@include channel.lua
--@include denial.lua
local key = ARGV[1]
local calls = {
    { 'time' },
    { 'get', key },
    { 'set', key, '0', 'no-such-option' },
    { 'pexpire', key, 'not-a-number' },
    { 'pttl', key },
    { 'del', key },
}
if ARGV[3] == 'hash' then
    calls[#calls + 1] = { 'hset', key, 'field', 'value', 'odd' }
    calls[#calls + 1] = { 'hget', key, 'field' }
    calls[#calls + 1] = { 'hexists', key, 'field' }
    calls[#calls + 1] = { 'hdel', key, 'field' }
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
-- rpush and hsetnx have no arguments that they would refuse.
local both = {
    { 'exists', key },
    { 'lpop', key, 'not-a-number' },
    { 'lrem', key, 'not-a-number', 'element' },
}
local line = { { 'lpos', key, 'element', 'no-such-option', '0' } }
local fair = {
    { 'lindex', key, 0 },
    { 'lrange', key, 0, 0 },
    { 'zadd', key, 'not-a-number', 'member' },
    { 'zrange', key, 0, 0 },
    { 'zrem', key, 'member' },
    { 'zscore', key, 'member' },
}
local answer = { 0, 0 }
-- How many of them the user may not run; their names are answered.
local function try(list, quiet)
    local count = 0
    for _, call in ipairs(list) do
        local result = redis.pcall(unpack(call))
        if denial(result) == '+' then
            count = count + 1
            answer[#answer + 1] = not quiet and call[1] or nil
        elseif call[1] == 'time' and not result.err then
            answer[1], answer[2] = tonumber(result[1]), tonumber(result[2])
        end
    end
    return count
end
local missing = try(calls)
if ARGV[4] ~= '' then
    missing = missing + try(both)
end
if ARGV[4] == 'fair' then
    try(fair)
elseif ARGV[4] == 'line' and try(line) > 0 and missing == 0 and try(fair, true) == 0 then
    answer[#answer + 1] = 1
end
return answer
