-- Are the permits, all of them, the owner's?
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua
--@include permits.lua
--@include permit_ids.lua

if living(ids_of(ARGV[2], take), now_ms()) < take then
    return 0
end
return 1
