-- Tells those who wait of a release. Answers 1, or 2 when the user has no right to the channel;
-- '' is no channel: nobody listens. '0' is meant for one waiter of each client, '1' for all.
--@include channel.lua
local function tell(channel, message)
    if channel ~= '' and type(publish(channel, message or '0')) == 'table' then
        return 2
    end
    return 1
end
