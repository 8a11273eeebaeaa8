-- Gives permits back.
--   KEYS: 1 free permits, 2 the beginning of the owners' keys    ARGV: see permits.lua
--@include permits.lua
--@include take_back.lua
return take_back()
