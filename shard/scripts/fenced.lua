-- Every shard lies under the epoch's name. KEYS: view. ARGV: incarnation, epoch. Returns 1, or 0 if the epoch moved on.
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'recovery')
if v[1] ~= ARGV[1] or v[2] ~= ARGV[2] then return 0 end
-- A script that has written once may go on where Redis is out of memory: an abort or a finish must be able to free it.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], 'fenced_epoch', ARGV[2])
if v[3] == 'fence' then redis.call('HSET', KEYS[1], 'recovery', '') end
return 1
