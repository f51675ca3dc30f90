-- Say that a writer has written what it has in memory of the generation that is read to shards' nodes under these
-- replication ids.
-- KEYS: view. ARGV: incarnation, the writer's field, what it says it in, the ids and ' of ' and the generation's
-- number; behind them ' partly' where it had not all in memory; else ' all', and if it knew of all that others had
-- added who left, ' ' and the one who left last, or '-'; the number alone.
-- Returns 1 said, 0 the view is another one, or another generation is read by now, -1 the writer is not registered.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', ARGV[2], 'bloom_filter_current_index')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
local generation = redis.call('HGET', KEYS[1], 'generation' .. view[5])
if string.match(generation, '^number=(%d+) ') ~= ARGV[5] then return 0 end
if not view[4] then return -1 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
return 1
