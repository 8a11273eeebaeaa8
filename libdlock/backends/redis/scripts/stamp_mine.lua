-- For who acquires or imports a time-stamp lock: what to answer when it is the asker's already, else
-- nothing; see already_mine.lua. When it was taken over stays as it is.
--@include already_mine.lua
--@include stamp.lua
local function mine_already()
    local ours, value, since = is_of(ARGV[2])
    return ours and already_mine(function()
        hold(value, since)
    end)
end
