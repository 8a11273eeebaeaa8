-- Takes a lock that is a hash from its holder; answers nothing when that is done.
-- Refuses a hash that isn't a lock of this kind: it might be somebody's data.
local function break_hash()
    local fields = redis.call('hkeys', KEYS[1])
    if #fields == 0 then
        return 0
    end
    for _, field in ipairs(fields) do
        if not string.find(field, ':%d+$') then
            return redis.error_reply('DLOCKKIND the hash has a field that is no owner of a lock')
        end
    end
    if ARGV[2] ~= '' and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
        return 0
    end
    redis.call('del', KEYS[1])
end
