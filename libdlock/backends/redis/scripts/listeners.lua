-- How many listen to each of these channels of one kind: what PUBSUB NUMSUB says of them.
local function listeners(channels)
    local how = string.byte(channels[1])
    if how > 2 then
        return redis.pcall('pubsub', 'numsub', unpack(channels))
    end
    for i, channel in ipairs(channels) do
        channels[i] = name_of(channel)
    end
    local heard = redis.pcall('pubsub', 'shardnumsub', unpack(channels))
    local more = how == 2 and not heard.err and redis.pcall('pubsub', 'numsub', unpack(channels))
    for i = 2, more and not more.err and #heard or 0, 2 do
        heard[i] = math.max(heard[i], more[i])
    end
    return heard
end
