-- Takes permits from an owner that is named. Whoever else has some isn't known to the server.
--   KEYS: 1 free permits, 2 the beginning of the owners' keys    ARGV: see permits.lua; 2 whom
--@include permits.lua
--@include take_back.lua
if ARGV[2] == '' then
    return redis.error_reply('DLOCKWHOM redis.semaphore=plain knows no holders: name the owner')
end
return take_back()
