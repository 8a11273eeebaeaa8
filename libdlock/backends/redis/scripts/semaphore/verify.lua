-- Are the permits the owner's, and is there still what they are permits of?
--   KEYS: 1 free permits, 2 the beginning of the owners' keys    ARGV: see permits.lua
if redis.call('exists', KEYS[1]) == 0 then
    return 0
end
return redis.call('exists', KEYS[2] .. ':' .. ARGV[2])
