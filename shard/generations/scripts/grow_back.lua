-- Home went back behind layers of a generation: the view gets them again.
-- KEYS: view. ARGV: incarnation, slot, the generation as the view has it, the same with the layers that it had, their
-- shards.
-- Returns 1 it has them; 0 the view is another one, is being deleted, or has another such generation.
-- Whoever makes such a layer meanwhile is refused by grow_end.lua, and has taken over the shards that are there.
local names = {'incarnation', 'deleting', 'generation' .. ARGV[2], 'bloom_filter_current_index'}
local has = redis.call('HMGET', KEYS[1], unpack(names))
if has[1] ~= ARGV[1] or has[2] ~= '0' then return 0 end
if has[3] == ARGV[4] then return 1 end
if has[3] ~= ARGV[3] then return 0 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], names[3], ARGV[4])
redis.call('HDEL', KEYS[1], 'next' .. ARGV[2])
if has[4] == ARGV[2] then redis.call('HSET', KEYS[1], 'bloom_filter_size', ARGV[5]) end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
