-- Takes a lock from its holder.
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--   ARGV: 1 channel, or '' to tell nobody, 2 owner, or '' for whoever has it
--@include tell.lua
--@include slots.lua

local who = holder()
if not who or (ARGV[2] ~= '' and ARGV[2] ~= readable(who)) then
    return 0
end
drop((count(who)))
return tell(ARGV[1])
