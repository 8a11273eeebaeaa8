-- Lengthens a lease, never shortens it.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 's' for seconds, else ms
--@include stamp.lua

local ours, value, since = is_of(ARGV[2])
if not ours then
    return 0
end
if end_of(value) - now < tonumber(ARGV[3]) then
    write(ARGV[2], tonumber(ARGV[3]), since ~= '' and ' ' .. since or '')
end
return 1
