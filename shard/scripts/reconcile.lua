-- Replace a view that is older than its shards by one under an epoch that nobody has used.
-- KEYS: view, expansion_flag, job, token. ARGV: mutex, events channel, filter, incarnation, epoch of the view that is
-- replaced, how far tokens jump, then pairs.
-- Returns 1 done, -1 the mutex is not ours, -2 another view is stored, or the filter is being deleted.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'dropped')
if v[1] ~= ARGV[4] or v[2] ~= ARGV[5] or v[3] then return -2 end
-- A script that has written once may go on where Redis is out of memory.
redis.call('PERSIST', KEYS[1])
for i = 7, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
-- The record is of a view that is over, and tokens that are lost must not be given out again.
redis.call('UNLINK', KEYS[3])
redis.call('INCRBY', KEYS[4], ARGV[6])
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
