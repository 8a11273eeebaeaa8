-- Handing a lock of Redisson's layout on, instead of letting all race for it.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 the line: a list of owners, one of each
--   client at most
--   ARGV: 1 channel, 3 lease in ms, 6 the terms, in one text because most calls need none of them:
--   how long the line is kept, in ms (0: nobody of ours may stand in it); how long the lock is kept
--   for who was told, in ms; the how-manieth time since the lock was put up for all it is handed on
--   (0: that is due now); whether our next owner goes before the line; and of an acquire whether
--   somebody else had the lock in the open turn, of a release whether our client listens to the
--   channel; and for one that keeps it `since`, see token.lua
--@include appoint.lua
--@include call_owner.lua

local life, claim_ms, turn, goes_first, flag
local function read_terms()
    life, claim_ms, turn, goes_first, flag =
        string.match(ARGV[6], '^(%d+) (%d+) (%d+) (%d) (%d)')
end

-- Reserves the lock, which is nobody's, for the first in the line whose client still listens.
-- Nobody, when the line ends before that, or `me` is the next in it.
local function appoint_next(me)
    while true do
        local first = redis.pcall('lpop', KEYS[3])
        if type(first) ~= 'string' or first == me then
            return false
        end
        local heard = call_owner(first, turn)
        if type(heard) == 'table' then -- no right to tell it; it looks again by itself
            redis.pcall('rpush', KEYS[3], first)
            return false
        end
        if heard > 0 then
            return appoint(first, math.min(claim_ms, ARGV[3])) ~= nil
        end
    end
end

-- At the end of the line, unless it stands in it or may not. Answers whether it does.
local function line_up(owner)
    if life == '0' then
        return false
    end
    local place = redis.pcall('lpos', KEYS[3], owner)
    if type(place) == 'table' then -- a server before 6.0.6
        redis.call('lrem', KEYS[3], 0, owner)
    end
    -- First what may be refused: a place that nobody waits in is kept free for a claim each time.
    local there = redis.call('pexpire', KEYS[3], life)
    if type(place) ~= 'number' then
        redis.call('rpush', KEYS[3], owner)
    end
    if there == 0 then
        redis.call('pexpire', KEYS[3], life)
    end
    return true
end
