-- Takes a read/write lock from its holders, or from the one that is named: an owner, of whichever
-- side. The counter of tokens stays, so the next one is larger.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner, or '' for whoever has it
-- Refuses a hash that isn't a lock of this kind: it might be somebody's data.
--@include rw.lua

local hash = redis.call('hgetall', KEYS[1])
if #hash == 0 then
    return 0
end
local mode, named = nil, {}
for i = 1, #hash, 2 do
    local owner = string.match(hash[i], '^(.*:%d+):write$') or string.match(hash[i], '^.*:%d+$')
    if hash[i] == 'mode' then
        mode = hash[i + 1]
    elseif not owner then
        return redis.error_reply('DLOCKKIND the hash has a field that is no owner of a lock')
    elseif ARGV[2] == '' or ARGV[2] == owner or ARGV[2] == hash[i] then
        named[#named + 1] = i
    end
end
if mode ~= 'read' and mode ~= 'write' then
    return redis.error_reply('DLOCKKIND no read/write lock is here')
end
if #named == 0 and ARGV[2] ~= '' then
    return 0
end
local wrote = false
for _, i in ipairs(named) do
    redis.call('hdel', KEYS[1], hash[i])
    wrote = wrote or string.find(hash[i], ':write$') ~= nil
    for level = 1, math.min(tonumber(hash[i + 1]) or 0, 1000) do
        redis.call('del', lease_key(hash[i], level))
    end
end
if ARGV[2] == '' then
    redis.call('del', KEYS[1])
    return tell(ARGV[1], '1')
end
return let_go(wrote)
