-- An owner is told on the one channel of its client; with what follows its id the client finds the lock, and
-- knows how often that was handed on since it was put up for all.
--   ARGV: 1 the lock's channel
-- Answers how many heard it, or a table where the user has no right to tell.
--@include channel.lua
local function call_owner(owner, turn)
    local client = string.match(owner, '^(.+):%d+$')
    local message = owner .. ' ' .. turn .. ' ' .. name_of(ARGV[1])
    return client and redis.pcall('publish', 'dlock_client:' .. client, message) or 0
end
