-- Take or renew the lease of a filter's follower, and write its status. KEYS: tail. ARGV: owner, TTL (ms), field,
-- value, ... Returns the number of the last request (see follower_ask.lua), 0: none; -1: another owner has the lease.
local holder = redis.call('HGET', KEYS[1], 'owner')
if holder and holder ~= ARGV[1] then return -1 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tonumber(redis.call('HGET', KEYS[1], 'asked') or '0')
