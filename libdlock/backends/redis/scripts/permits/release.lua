-- Gives permits back. What is over and still there is freed too, but wasn't the owner's any more.
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua
-- Answers 0 when they weren't all the owner's, else 1, or 2 when nobody could be told.
--@include permits.lua
--@include permit_ids.lua
--@include said_of_permits.lua

local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
local ids = ids_of(ARGV[2], take)
local mine = living(ids, now_ms())
local count = remove(ids)
if ids[1] then
    redis.pcall('del', said_key(KEYS[2], hex_of(ids[1])))
end
local told = 1
if count > 0 and free then
    told = tell_free(count_free(free, count))
end
if mine < take then
    return 0
end
return told
