-- Lengthens the leases of permits, never shortens them. All of them have to be the owner's.
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua
--@include permits.lua
--@include permit_ids.lua

local ids, now = ids_of(ARGV[2], take), now_ms()
if living(ids, now) < take then
    return 0
end
lengthen(ids, now + ARGV[3])
return 1
