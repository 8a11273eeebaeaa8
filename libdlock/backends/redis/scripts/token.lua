-- Fencing tokens, for the acquire of every layout; KEYS[2] is the counter, ARGV[4] how long it is kept.
--@include token_life.lua
local no_counter = 'DLOCKTOKEN the counter of fencing tokens holds something else'

-- The next one: max(last + 1, server's clock in us): later than all before it, and also after the counter was
-- lost. Numbers are doubles here, exact below 2^53.
local function next_token(last)
    local time = redis.call('time')
    local token = time[1] .. string.sub('00000' .. time[2], -6)
    local number
    if last then
        if not string.find(last, '^%d+$') then
            return nil, no_counter
        end
        number = tonumber(last)
        if #last > 16 or number >= 9007199254740990 then
            return nil, 'DLOCKFULL the counter of fencing tokens is at its end'
        end
        if number >= tonumber(token) then
            token = string.format('%.0f', number + 1)
        end
    end
    write_token(token, number)
    return token
end
