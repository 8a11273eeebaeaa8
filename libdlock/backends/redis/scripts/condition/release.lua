-- Gives a place back. Unless its signal was used, that goes on to the next.
--   KEYS, ARGV: see condition.lua
-- A signal is known by its token: one that came to the place of a late request wasn't used by whoever used
-- an earlier one.
--@include condition.lua

local me = ARGV[2]
local token = signal_of(me)
if token == ARGV[5] then
    drop(me)
    return 1
end
if token then
    pass_on(me)
    return 1
end
local first = redis.call('lindex', KEYS[2], 0) == me
local waited = redis.call('lrem', KEYS[2], 1, me)
drop(me)
if first and redis.call('exists', KEYS[3]) == 1 then
    call_first() -- it is to look after the signals in its stead
end
return waited
