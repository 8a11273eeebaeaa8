-- Takes a lock in Redisson's layout, with a fencing token, or a place in the line for it.
--   KEYS: 1 the lock (hash owner -> count), 2 the counter of its tokens, 3 the line, 4 the mark of
--   an open turn
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 '', 6 the terms
-- Answers the token as text when the lock is (or was already) the owner's (more to one that keeps it, see
-- keeps.lua), else the PTTL of the holder as a number, or -1 less what is left of an open turn. A
-- script that stops half-way isn't rolled back, so whatever may fail comes before the lock's own key.

--@include appoint.lua
--@include keeps.lua

if redis.call('exists', KEYS[1], KEYS[3], KEYS[4]) > 0 then
    --@include channel.lua
    --@include already_mine.lua
    --@include next_owner.lua
    --@include open_turn.lua
    read_terms()
    turn = 0
    local left = redis.call('pttl', KEYS[1])
    local moment = hold_back(left == -2 and flag == '0')
    if moment > 0 then
        line_up(ARGV[2])
        return -1 - moment
    end
    if left == -2 and appoint_next(ARGV[2]) then
        left = redis.call('pttl', KEYS[1])
    elseif left ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        return answer_to(ARGV[2], already_mine(nil, since(ARGV[2])))
    end
    if left ~= -2 then
        local mode = redis.call('hget', KEYS[1], 'mode')
        if mode then
            return redis.error_reply('DLOCKKIND no plain lock is here, but one in mode ' .. mode)
        end
        ask_for_it()
        line_up(ARGV[2])
        return left
    end
end

local token, problem = appoint(ARGV[2], ARGV[3], since(ARGV[2]))
if not token then
    return redis.error_reply(problem)
end
return answer_to(ARGV[2], token)
