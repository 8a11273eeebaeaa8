-- Who has a time-stamp lock, and its value: one of ours by name, another by the value alone.
--@include stamp.lua
local function holder()
    local value, mine = redis.call('get', KEYS[1]), redis.call('get', KEYS[3])
    if not value or not end_of(value) or end_of(value) < now then
        return nil
    end
    local who = string.match(mine or '', '^(%S+) ')
    return who and is_of(who) and who or value, value
end
