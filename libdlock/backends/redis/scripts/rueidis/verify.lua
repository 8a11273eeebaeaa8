-- Is the lock the owner's?
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys    ARGV: 1 channel, 2 owner
--@include slots.lua
return #count(ARGV[2]) >= most and 1 or 0
