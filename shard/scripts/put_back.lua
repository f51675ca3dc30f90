-- Put back a view that somebody remembers, where the stored one is older, or gone: its node came back with older data.
-- KEYS: view, job, token, expansion_flag. ARGV: events channel, filter, incarnation, epoch, how far tokens jump, 1 where
-- nothing need be stored, the incarnation that counts as nothing, then pairs.
-- Returns 1 done, 0 what is stored is another incarnation's, is not older, or is being deleted; nothing is, and somebody has
-- the mutex: he may be making the filter anew.
local stored = redis.call('HGET', KEYS[1], 'incarnation')
if not stored or stored == ARGV[7] then
  if ARGV[6] ~= '1' or redis.call('EXISTS', KEYS[4]) == 1 then return 0 end
else
  local v = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'dropped')
  if v[1] ~= ARGV[3] or v[3] or not v[2] or tonumber(v[2]) >= tonumber(ARGV[4]) then return 0 end
end
-- A script that has written once may go on where Redis is out of memory.
redis.call('PERSIST', KEYS[1])
if stored == ARGV[7] then redis.call('UNLINK', KEYS[1]) end
for i = 8, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], 'recovery', 'due')
-- The record is of a job that began before, and tokens that are lost must not be given out again.
redis.call('UNLINK', KEYS[2])
redis.call('INCRBY', KEYS[3], ARGV[5])
redis.call('PUBLISH', ARGV[1], 'view ' .. ARGV[2])
return 1
