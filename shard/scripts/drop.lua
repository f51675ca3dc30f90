-- Begin to delete a filter: its shards may become tombstones from here on. KEYS: view, expansion_flag, job. ARGV: mutex,
-- events channel, filter, incarnation, epoch, the expire_at that has come (or empty).
-- Returns 1 begun, now or before, -1 the mutex is not ours, -2 the view is another one, -3 its last change is not fenced
-- yet, -4 its expire_at is another one.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'fenced_epoch', 'expire_at', 'dropped', 'recovery')
if v[1] ~= ARGV[4] or v[2] ~= ARGV[5] then return -2 end
if v[5] then return 1 end
if v[3] ~= v[2] or v[6] == 'due' then return -3 end
if ARGV[6] ~= '' and v[4] ~= ARGV[6] then return -4 end
-- A script that has written once may go on where Redis is out of memory: this frees some.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], 'dropped', 'begun')
redis.call('UNLINK', KEYS[3])
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
