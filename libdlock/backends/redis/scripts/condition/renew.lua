-- Makes the lease of who is signalled last.
--   KEYS, ARGV: see condition.lua; the last two of ARGV: see lease.lua
--@include condition.lua
if not signal_of(ARGV[2]) then
    return 0
end
return hold(ARGV[#ARGV - 1], ARGV[#ARGV])
