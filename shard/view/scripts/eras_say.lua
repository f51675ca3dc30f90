-- Say that a writer has written what it has in memory to shards' nodes under these replication ids.
-- KEYS: view. ARGV: incarnation, the writer's field, what it says it in, the ids; behind them ' partly' where it had not
-- all in memory; else ' all', and if it knew of all that others had added who left, ' ' and the one who left last, or '-'.
-- Returns 1 said, 0 the view is another one, -1 the writer is not registered.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
if not view[4] then return -1 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
return 1
