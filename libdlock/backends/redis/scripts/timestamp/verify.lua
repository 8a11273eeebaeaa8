-- Is the lock the owner's?
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is    ARGV: 1 channel, 2 owner, 3 and 4 unused, 5 's' or ms
--@include stamp.lua
return is_of(ARGV[2]) and 1 or 0
