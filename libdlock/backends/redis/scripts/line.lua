-- The line before a fair lock, kept as Redisson keeps it: the members of list and zset are the
-- same at any time.
--   KEYS: 3 list of owners, the first is next, 4 zset of owners by when their places lapse, in
--   ms of the epoch, 5 hash of those that were found silent: owner -> since when
--   ARGV: 1 channel; each owner listens on one of its own, channel:owner, 5 by how much a
--   member of ours puts off those behind it
--@include listeners.lua
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local far, near = 1000, 30 -- so many members are looked at at once and now and then
local silence = 3000       -- who is neither listening nor asking for so long is gone

-- Wherever this ends for want of a right: who has no place in the list has none in the zset either,
-- or it would take itself for waiting and never be the head. The other way round prune mends it.
local function drop_head(head)
    redis.call('zrem', KEYS[4], head)
    redis.call('hdel', KEYS[5], head)
    redis.call('lpop', KEYS[3])
end

-- Whoever stood before it is gone, so its place lapses sooner by what that had put it off; but never
-- so soon that it would, though it asks in time: after a long wait those behind are hardly further
-- away than those before them.
local function move_up(owner)
    local put_off = tonumber(ARGV[5])
    local place = tonumber(redis.call('zscore', KEYS[4], owner)) or 0
    local least = math.min(place, now + put_off / 2)
    redis.call('zadd', KEYS[4], math.max(place - put_off, least), owner)
end

-- Those at the head whose time is up lose their places. Answers who is the head then, if anybody,
-- and when its place lapses.
local function prune()
    while true do
        local head = redis.call('lindex', KEYS[3], 0)
        local lapses = head and (tonumber(redis.call('zscore', KEYS[4], head)) or 0)
        if not head or lapses > now then
            return head, lapses
        end
        drop_head(head)
    end
end

-- Has it a connection? True also where the server doesn't say.
local function listens(owner)
    local heard = listeners({ ARGV[1] .. ':' .. owner })
    return heard.err or heard[2] > 0
end

-- Notes who in the line doesn't listen, and who does again.
local function note_silent()
    local line, channels, awake = redis.call('lrange', KEYS[3], 0, far - 1), {}, {}
    for i, owner in ipairs(line) do
        channels[i] = ARGV[1] .. ':' .. owner
    end
    redis.call('pexpire', KEYS[5], 4 * silence) -- if it is refused, then before anything is noted
    local heard = listeners(channels)
    for i, owner in ipairs(line) do
        if heard[2 * i] == 0 then
            redis.call('hsetnx', KEYS[5], owner, now)
        else
            awake[#awake + 1] = owner
        end
    end
    if #awake > 0 then
        redis.call('hdel', KEYS[5], unpack(awake))
    end
    redis.call('pexpire', KEYS[5], 4 * silence)
end

-- Whose turn is it, now that the lock is free? Who died in the line has no connection any more,
-- so its place needn't lapse: it loses it when it has been silent for a while. That while runs
-- for all the dead together. Answers nothing when nobody is in the line, else the head, until
-- when that one is waited for, and who is to look again then: the first behind it that isn't
-- silent.
local function whose_turn()
    local head, lapses = prune()
    if not head then
        redis.call('del', KEYS[5])
    end
    if not head or listens(head) then
        return head, lapses, redis.call('lindex', KEYS[3], 1)
    end
    local since = tonumber(redis.call('hget', KEYS[5], head))
    if since and since > now then -- the clock was set back: it would be kept for as long
        redis.call('del', KEYS[5])
        since = nil
    end
    if not since then
        note_silent()
        since = now
    end
    if since + silence <= now then
        drop_head(head)
        return whose_turn()
    end
    if lapses > since + silence then
        lapses = since + silence
        -- Redisson's clients, who know nothing of silence, pass over it then, too. Not at first
        -- sight: theirs subscribe when they stand in the line already, and who comes behind a
        -- place that lapses so soon is dropped when that one takes the lock, as it then brings
        -- all behind forward by what it had itself put them off.
        if now - since >= silence / 3 then
            redis.call('zadd', KEYS[4], lapses, head)
        end
    end
    local behind, watcher = redis.call('lrange', KEYS[3], 1, near), nil
    for _, owner in ipairs(behind) do
        if redis.call('hexists', KEYS[5], owner) == 0 then
            watcher = owner
            break
        end
    end
    return head, lapses, watcher
end

-- A place is given up: those behind it move up by what it had put them off.
local function leave_line(owner)
    local behind = false
    for _, member in ipairs(redis.call('lrange', KEYS[3], 0, -1)) do
        if behind then
            move_up(member)
        end
        behind = behind or member == owner
    end
    redis.call('zrem', KEYS[4], owner)
    redis.call('hdel', KEYS[5], owner)
    redis.call('lrem', KEYS[3], 0, owner)
end
