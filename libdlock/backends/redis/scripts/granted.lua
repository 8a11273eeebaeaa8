-- Of the lock that this script has just written.

-- Makes it end. Answers `token`, or what was refused: better no lock than one that never ends.
local function granted(token)
    local done = redis.pcall('pexpire', KEYS[1], ARGV[3])
    if done ~= 1 then
        redis.call('del', KEYS[1])
        return done
    end
    return token
end
