-- Asks owners to give up what they have: each is told on the channel of its client.
--   ARGV: owners
-- Answers how many of them listened.
local heard = 0
for _, owner in ipairs(ARGV) do
    local client, number = string.match(owner, '^(%x+%-%x+%-%x+%-%x+%-%x+):(%d+)')
    if client and redis.call('publish', 'dlock_client:' .. client, 'revoke ' .. number) > 0 then
        heard = heard + 1
    end
end
return heard
