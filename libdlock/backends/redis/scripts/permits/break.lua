-- Takes permits from their holder: one by its id in hex, all that an owner "<uuid>:<number>" has,
-- or, for '', all that there are.
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua; 2 whom
--@include permits.lua
--@include permit_ids.lua

local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
local whom, count = ARGV[2], 0
if whom == '' then
    count = redis.call('zcard', KEYS[2])
    redis.call('del', KEYS[2])
elseif #whom == 32 and string.find(whom, '^%x+$') then
    for _, id in ipairs(redis.call('zrange', KEYS[2], 0, -1)) do
        if hex_of(id) == string.lower(whom) then
            count = remove({ id })
        end
    end
else
    local ids = ids_of(whom, 1)
    while #ids > count and remove({ ids[#ids] }) == 1 do
        count = count + 1
        ids = ids_of(whom, #ids + 1)
    end
end
if count == 0 then
    return 0
end
if not free then
    return 1
end
return tell_free(count_free(free, count))
