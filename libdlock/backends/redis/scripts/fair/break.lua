-- Takes a fair lock from its holder, and tells whose turn it is.
--   KEYS: 1 the lock, 3 … 5 its line    ARGV: 1 channel, 2 owner, or '' for whoever has it
--@include break_hash.lua
--@include tell.lua
--@include line.lua
--@include tell_next.lua
return break_hash() or tell_next(true)
