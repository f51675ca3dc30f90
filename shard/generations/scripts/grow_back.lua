-- The view went back to before layers of a generation: give it these layers again.
-- KEYS: view. ARGV: incarnation, slot, text of the generation in the view, the same with the missing layers, number of
-- shards then.
-- Returns 1: the view has them; 0: the view has changed, is being deleted, or has another such generation.
-- What was folded into them may be in no lane any more, so none of their shards is taken for empty.
-- grow_end.lua refuses a process that is making such a layer meanwhile; that process has taken over the shards that are
-- there.
-- include layers.lua
local names = {'incarnation', 'deleting', 'generation' .. ARGV[2], 'bloom_filter_current_index'}
local has = redis.call('HMGET', KEYS[1], unpack(names))
if has[1] ~= ARGV[1] or has[2] ~= '0' then return 0 end
if has[3] == ARGV[4] then return 1 end
if has[3] ~= ARGV[3] then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], names[3], ARGV[4])
redis.call('HSET', KEYS[1], 'filled' .. ARGV[2], layers_of(KEYS[1], ARGV[2]))
redis.call('HDEL', KEYS[1], 'next' .. ARGV[2])
if has[4] == ARGV[2] then redis.call('HSET', KEYS[1], 'bloom_filter_size', ARGV[5]) end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
