-- Fencing tokens, for the acquire of every layout; KEYS[2] is the counter, ARGV[4] how long it is kept.
--@include token_life.lua
local no_counter = 'DLOCKTOKEN the counter of fencing tokens holds something else'

-- The next one: max(last + 1, server's clock in us): later than all before it, and also after the counter was
-- lost. Numbers are doubles here, exact below 2^53.
--
-- For one that keeps its lock it is a block, "first last": all up to that one which the counter has gone past
-- unused, after `since`, the server's clock in us when the client greeted it. What was handed out before that is
-- smaller, also where the server has gone back to an older counter: that ends every connection. A small number is of
-- a counter that was lost, and begun anew by others: as without one there is no block, since larger tokens may
-- have been handed out meanwhile.
--
-- On a node of a Redlock `past` stands for the clock, where it is earlier by less than a second and the counter is
-- there: so the nodes say the same.
local function next_token(last, since, past)
    local time = redis.call('time')
    local token = time[1] .. string.sub('00000' .. time[2], -6)
    local number, first
    if last then
        if not string.find(last, '^%d+$') then
            return nil, no_counter
        end
        number = tonumber(last)
        if #last > 16 or number >= 9007199254740990 then
            return nil, 'DLOCKFULL the counter of fencing tokens is at its end'
        end
        if past and number >= small and past < tonumber(token) and tonumber(token) < past + 1000000 then
            token = string.format('%.0f', past)
        end
        if number >= tonumber(token) then
            token = string.format('%.0f', number + 1)
        end
        if since and number >= small and math.max(number, since) < tonumber(token) then
            first = string.format('%.0f', math.max(number, since) + 1)
        end
    end
    write_token(token, number)
    return since and (first or token) .. ' ' .. token or token
end
