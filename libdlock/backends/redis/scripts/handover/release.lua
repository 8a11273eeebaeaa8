-- Gives a lock back, or a place in the line for it. The lock goes to our own client's next owner,
-- who has it at once: that very client is asking. Or to the first in the line, who has to claim
-- it. Else it is put up for all, Redisson's waiters too.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 the line, 4 the mark of an open turn
--   ARGV: 1 channel, 2 owner, 3 lease of our next owner in ms, 4 see token_life.lua, 5 our next
--   owner or '', 6 the terms
-- Answers the token as text (see acquire.lua) when our next owner has it, 3 when that stands in the line; of the
-- release alone 0 when nothing was the owner's, else 1, or 2 when nobody could be told.
--@include tell.lua

if redis.call('hdel', KEYS[1], ARGV[2]) == 0 then
    return redis.pcall('lrem', KEYS[3], 0, ARGV[2]) == 1 and 1 or 0
end

local ours = ARGV[5]
if ours == '' and redis.call('exists', KEYS[3]) == 0 then
    return tell(ARGV[1])
end
--@include next_owner.lua
--@include open_turn.lua
--@include keeps.lua
read_terms()
local put_up = turn == '0' and mark_left() == -2 and others_wait(tonumber(flag))
local answer
if not put_up and (ours == '' or goes_first == '0') and appoint_next() then
    answer = 1
elseif not put_up and ours ~= '' then
    local token = appoint(ours, ARGV[3], since(ours))
    if token then
        return answer_to(ours, token)
    end
end
if put_up then
    redis.call('set', KEYS[4], '', 'px', grace_ms + rest_ms)
end
answer = answer or tell(ARGV[1])
if ours ~= '' and answer == 1 and line_up(ours) then
    return 3
end
return answer
