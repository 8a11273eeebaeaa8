-- In a cluster a lock's channel is one of its shard. The client says so in the first byte of the
-- name: 1 SPUBLISH, 2 PUBLISH as well; any other belongs to the name.
local function name_of(channel)
    return (string.gsub(channel, '^[\1\2]', ''))
end

-- Answers how many heard it, or a table when the user has no right to the channel.
local function publish(channel, message)
    local how = string.byte(channel) or 3
    if how > 2 then
        return redis.pcall('publish', channel, message)
    end
    local heard = redis.pcall('spublish', name_of(channel), message)
    if how == 2 then
        local more = redis.pcall('publish', name_of(channel), message)
        heard = type(heard) == 'table' and more or heard
    end
    return heard
end
