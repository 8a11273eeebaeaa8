-- What inspect answers of a lock that is a hash: held, kind, waiters, permits, those of them that are
-- free, data (-1 and '' are "no such thing"), the line, then owner, token, ms left, count and client of
-- each holder.
--   ARGV: the last: see client_of.lua
--@include lease_key.lua
--@include seen_permits.lua
--@include client_of.lua

-- Of a condition, see condition.lua: who is signalled, and isn't back yet, has something; the others wait.
local function seen_condition(hash)
    local seen, line = { 0, 'condition', 0, -1, -1, '', {} }, {}
    for i = 1, #hash, 2 do
        local token = string.match(hash[i + 1], '^signal (%d+)$')
        local since = string.match(hash[i + 1], '^%d+ %d (%d+)$')
        if token and #seen < 320 then
            seen[1] = 1
            seen[#seen + 1] = hash[i]
            seen[#seen + 1] = token
            seen[#seen + 1] = -1
            seen[#seen + 1] = '1'
            seen[#seen + 1] = client_of(ARGV[#ARGV], hash[i])
        elseif since then
            line[#line + 1] = { tonumber(since), hash[i], since }
        end
    end
    table.sort(line, function(one, other)
        return one[1] < other[1]
    end)
    seen[3] = #line
    for i = 1, math.min(#line, 64) do
        local at = #seen[7]
        seen[7][at + 1] = line[i][2]
        seen[7][at + 2] = client_of(ARGV[#ARGV], line[i][2])
        seen[7][at + 3] = line[i][3]
    end
    return seen
end

-- Of a number, which a semaphore's free permits are, whatever it was asked for as. Of a plain one nothing else
-- is known; the rights to see more are those of who uses semaphores.
local function seen_number()
    local text = redis.pcall('get', KEYS[1])
    local taken = base .. ':timeout'
    local free = type(text) == 'string' and #text < 12 and string.find(text, '^%-?%d+$') and tonumber(text)
    if not free then
        return redis.error_reply('DLOCKKIND no lock of this layout is here')
    end
    local fine, seen = pcall(seen_permits, free, taken, 0, ARGV[#ARGV], 64, true)
    if fine and #seen > 7 then
        return seen
    end
    return { free > 0 and 0 or 1, 'semaphore', -1, -1, math.max(free, 0), '', {} }
end

local function seen_hash()
    local left = redis.call('pttl', KEYS[1])
    local token = redis.pcall('get', KEYS[2])
    local hash = redis.pcall('hgetall', KEYS[1])
    local mode
    if hash.err and string.find(hash.err, 'WRONGTYPE', 1, true) then
        return seen_number()
    elseif hash.err then
        return hash
    end
    for i = 1, #hash, 2 do
        if hash[i] == 'mode' then
            mode = hash[i + 1]
        end
    end
    if mode == 'condition' then
        return seen_condition(hash)
    end
    if type(token) ~= 'string' then
        token = ''
    end
    local seen = { #hash > 0 and 1 or 0, mode or 'mutex', -1, -1, -1, '', {} }
    for i = 1, math.min(#hash, 128), 2 do
        local owner, own_token, own_left = hash[i], token, left
        if mode then
            owner = string.gsub(owner, ':write$', '')
        end
        if mode and owner == hash[i] then -- a reader: it has keys of its own
            own_token = redis.pcall('get', lease_key(owner, 1))
            own_left = lease_of(owner, hash[i + 1])
        end
        if hash[i + 1] == '0' then -- the mark of an election: see term.lua
            seen[2], hash[i + 1] = 'election', '1'
        end
        if owner ~= 'mode' then
            seen[#seen + 1] = owner
            seen[#seen + 1] = type(own_token) == 'string' and #own_token > 1 and own_token or ''
            seen[#seen + 1] = own_left > 0 and own_left or -1
            seen[#seen + 1] = hash[i + 1]
            seen[#seen + 1] = client_of(ARGV[#ARGV], owner)
        end
    end
    return seen
end
