-- The fair lock is free: tells whose turn it is, and with `all` also those that wait beside the
-- line, as for a plain lock. Answers as tell does.
local function tell_next(all)
    local head, _, watcher = whose_turn()
    local told = head and tell(ARGV[1] .. ':' .. head) or 1
    if watcher and not listens(head) then
        tell(ARGV[1] .. ':' .. watcher) -- the head may be dead: it is to look after that
    end
    if all then
        told = math.max(told, tell(ARGV[1]))
    end
    return told
end
