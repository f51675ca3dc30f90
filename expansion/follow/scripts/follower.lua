-- Take the lease of a filter's follower for an attempt, or renew it; and write its status. KEYS: tail. ARGV: owner, TTL
-- (ms), attempt, 1 to take it, field, value, ... Returns the number of the last request (see follower_ask.lua), 0:
-- none; -1: another owner has the lease, or this attempt has it no more: it has ended, or a later attempt has taken it.
local held = redis.call('HMGET', KEYS[1], 'owner', 'attempt')
if ARGV[4] ~= '1' and held[2] ~= ARGV[3] or held[1] and held[1] ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  if left == -1 or left > 3600000 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end -- as in lease_take.lua
  return -1
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'attempt', ARGV[3])
for i = 5, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tonumber(redis.call('HGET', KEYS[1], 'asked') or '0')
