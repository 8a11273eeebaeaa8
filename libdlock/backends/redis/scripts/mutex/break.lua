-- Takes a lock from its holder. The counter of tokens stays, so the next one is larger.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner, or '' for whoever has it
--@include break_hash.lua
--@include tell.lua
return break_hash() or tell(ARGV[1])
