-- All shards of the new layer are there: add it to the generation.
-- KEYS: view. ARGV: incarnation, slot, text of the generation as the caller knew it, the same with the new layer,
-- number of shards then, 1 if some of the layer's shards were there before: what was folded into them may be in no lane
-- any more.
-- Returns 1: the generation has the layer, by this call or before; 0: the view has changed, is being deleted, or
-- another process is making the layer.
-- include layers.lua
local names = {'incarnation', 'deleting', 'generation' .. ARGV[2], 'next' .. ARGV[2], 'bloom_filter_current_index'}
local has = redis.call('HMGET', KEYS[1], unpack(names))
if has[1] ~= ARGV[1] then return 0 end
if has[3] == ARGV[4] then return 1 end
if has[2] ~= '0' or has[3] ~= ARGV[3] or has[4] ~= ARGV[4] then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], names[3], ARGV[4])
if ARGV[6] == '1' then redis.call('HSET', KEYS[1], 'filled' .. ARGV[2], layers_of(KEYS[1], ARGV[2])) end
redis.call('HDEL', KEYS[1], names[4])
if has[5] == ARGV[2] then redis.call('HSET', KEYS[1], 'bloom_filter_size', ARGV[5]) end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
