-- What left the view has been turned into tombstones. KEYS: view, expansion_flag. ARGV: mutex, incarnation,
-- retiring_epoch. Returns 1, -1 the mutex is not ours, 0 the record is another one.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'retiring_epoch')
if v[1] ~= ARGV[2] or v[2] ~= ARGV[3] then return 0 end
-- A script that has written once may go on where Redis is out of memory: an abort or a finish must be able to free it.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], 'retiring_epoch', '0', 'retiring', '')
return 1
