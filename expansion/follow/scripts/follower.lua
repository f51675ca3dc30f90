-- Take or renew the lease of a filter's follower, and write its status. KEYS: tail. ARGV: owner, TTL (ms), 1 to renew
-- what the owner believes to have, field, value, ... Returns the number of the last request (see follower_ask.lua), 0:
-- none; -1: another owner has the lease, or it has ended, so that another one may have had it.
-- Requests are counted from 1 on when the status had expired: `done` of an earlier count answers none of them.
local holder = redis.call('HGET', KEYS[1], 'owner')
if holder and holder ~= ARGV[1] or not holder and ARGV[3] == '1' then return -1 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
local asked = tonumber(redis.call('HGET', KEYS[1], 'asked') or '0')
if tonumber(redis.call('HGET', KEYS[1], 'done') or '0') > asked then redis.call('HSET', KEYS[1], 'done', asked) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return asked
