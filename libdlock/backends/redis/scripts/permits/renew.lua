-- Makes the leases of permits last, see lease.lua. All of them have to be the owner's.
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua, 6 lock.data, 7
--   and 8: see lease.lua
--@include permits.lua
--@include permit_ids.lua
--@include said_of_permits.lua

local ids, now = ids_of(ARGV[2], take), now_ms()
if living(ids, now) < take then
    return 0
end
pcall(lengthen, said_key(KEYS[2], hex_of(ids[1])), ARGV[3])
return hold(ids, now, ARGV[3], ARGV[7], ARGV[8])
