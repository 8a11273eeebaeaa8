-- Makes the leases of permits last, see lease.lua. All of them have to be the owner's.
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua, 6 and 7: see
--   lease.lua
--@include permits.lua
--@include permit_ids.lua

local ids, now = ids_of(ARGV[2], take), now_ms()
if living(ids, now) < take then
    return 0
end
return hold(ids, now, ARGV[3], ARGV[6], ARGV[7])
