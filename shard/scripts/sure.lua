-- The shards that were made anew hold all rows: the filter can say "no" by them. KEYS: view, expansion_flag. ARGV: mutex, events
-- channel, filter, incarnation, epoch, the field `unsure` as it must be.
-- Returns 1 done, -1 the mutex is not ours, -2 another view is stored, it is not fenced, or the filter is being deleted, -4 the
-- field is another.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'fenced_epoch', 'dropped', 'recovery', 'unsure')
if v[1] ~= ARGV[4] or v[2] ~= ARGV[5] or v[3] ~= v[2] or v[4] or (v[5] or '') ~= '' then return -2 end
if v[6] ~= ARGV[6] then return -4 end
-- A script that has written once may go on where Redis is out of memory.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], 'unsure', '', 'format', '1')
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
