-- Say that a writer has written what it has in memory of the current generation to shards' nodes with these replication
-- ids.
-- KEYS: view. ARGV: incarnation, the writer's field, the field for what it says; the ids, ' of ' and the number of the
-- generation, then ' partly' if it did not have all in memory, else ' all'; after ' all', if it knew all that former
-- writers had added, ' ' and the one that left last, or '-'; the number of the generation alone.
-- Returns 1: said; 0: the view has changed, or another generation is current; -1: the writer is not registered.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', ARGV[2], 'bloom_filter_current_index')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
local generation = redis.call('HGET', KEYS[1], 'generation' .. view[5])
if string.match(generation, '^number=(%d+) ') ~= ARGV[5] then return 0 end
if not view[4] then return -1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
return 1
