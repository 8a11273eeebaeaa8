-- What inspect answers of a semaphore: held, kind, waiters, permits, how many of them are free (-1: not known),
-- no data, no line, then of each permit with a lease: its id in hex as owner, no token, ms left (-1: no end),
-- count, client. Changes nothing: what is over is counted as free.
--   @free how many are, as it is written there, nil: there is none; @key the taken ones; @size how many there
--   are to be, 0: nobody says;
--   @clients see client_of.lua; @most so many are told; @said whether to look for what said_of_permits.lua has
-- And how many are taken, which may be more than there are: a peer may have made it smaller.
--@include permit_ids.lua
--@include client_of.lua
--@include said_of_permits.lua
local function seen_permits(free, key, size, clients, most, said)
    local now = now_ms()
    local over = redis.call('zcount', key, 0, now)
    local taken = redis.call('zcard', key) - over
    local all = size > 0 and size or -1
    if free then
        all = math.max(free + over + taken, 0)
    end
    local left = all < 0 and -1 or math.max(all - taken, 0)
    local seen = { taken > 0 and 1 or 0, 'semaphore', -1, all, left, '', {} }
    local permits = redis.call('zrange', key, over, over + most - 1, 'WITHSCORES')
    for i = 1, #permits, 2 do
        local ends = tonumber(permits[i + 1])
        local id = hex_of(permits[i])
        local client = client_of_permit(clients, id)
        seen[#seen + 1] = id
        seen[#seen + 1] = ''
        seen[#seen + 1] = ends >= never and -1 or ends - now
        seen[#seen + 1] = 1
        seen[#seen + 1] = said and with_said(key, id, client) or client
    end
    return seen, taken
end
