-- Is the owner signalled?
--   KEYS, ARGV: see condition.lua
--@include condition.lua
return signal_of(ARGV[2]) and 1 or 0
