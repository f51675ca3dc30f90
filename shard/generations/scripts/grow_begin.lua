-- Record which layer is being made, before any of its shards is: whoever deletes the filter removes them. If another
-- process tried before, the view says from now on that there may be shards which it does not name.
-- KEYS: view. ARGV: incarnation, slot, text of the generation as the caller knows it, the same with the new layer.
-- Returns 1: recorded; 0: the view has changed, is being deleted, or has another such generation.
local has = redis.call('HMGET', KEYS[1], 'incarnation', 'deleting', 'generation' .. ARGV[2], 'next' .. ARGV[2])
if has[1] ~= ARGV[1] or has[2] ~= '0' or has[3] ~= ARGV[3] then return 0 end
if has[4] and has[4] ~= ARGV[4] then redis.call('HSET', KEYS[1], 'strays', '1') end
redis.call('HSET', KEYS[1], 'next' .. ARGV[2], ARGV[4])
return 1
