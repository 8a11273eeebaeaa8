-- Takes a lock from its holder.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is
--   ARGV: 1 channel, or '' to tell nobody, 2 owner, or '' for whoever has it, 3 and 4 unused, 5 's' or ms
--@include tell.lua
--@include stamp_holder.lua

local who = holder()
if not who or (ARGV[2] ~= '' and ARGV[2] ~= who) then
    return 0
end
redis.call('del', KEYS[1], KEYS[3])
return tell(ARGV[1])
