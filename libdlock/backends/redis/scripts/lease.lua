-- Leases that lie on the server. One is lengthened to what is asked for, and not cut: a request may
-- come late, and behind one for longer that the holder lives by.
--
-- But a clock that is set back makes a lease longer by as much, and it would outlive a holder that
-- dies. So a renewal says how long the lease can be at most by all that was asked for before (`most`),
-- and where it is longer hears when it ends; the next renewal brings that end along (`seen`), and makes
-- this very lease one of its own `most`. Whatever else was asked for meanwhile has brought that end
-- along, too, and put another in its place, be it a later one: then a late renewal finds nothing to
-- cut.
--   ARGV of renew: the last but one is `most`, the last `seen`; '0': nothing
local furthest = 9007199254740991 -- doubles are exact up to there, and Redis can answer it

local function clock_ms()
    local time = redis.call('time')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- What a lease is to be made of which `left` ms are left, nothing: it stays; and when it ends, where
-- that is to be told.
local function new_lease(left, ms, most, seen)
    if left < tonumber(ms) then
        return tonumber(ms)
    end
    most, seen = tonumber(most) or 0, tonumber(seen) or 0
    if most <= 0 or seen == 0 and left <= most then
        return nil
    end
    local ends = math.min(clock_ms() + left, furthest)
    if math.abs(ends - seen) <= 2 then -- the two readings of the clock may be apart
        return most
    end
    if left <= most then
        return nil
    end
    return nil, ends > 1000000000 and ends or nil -- by a clock in 1970 it would look like a flag
end

-- Of a key: answers 1, or when it ends.
local function lengthen(key, ms, most, seen)
    local lease, ends = new_lease(redis.call('pttl', key), ms, most, seen)
    if lease then
        redis.call('pexpire', key, string.format('%.0f', lease))
    end
    return ends or 1
end
