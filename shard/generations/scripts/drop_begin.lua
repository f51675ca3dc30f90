-- Make a view, or the record of what is left over, say that all that it names is being deleted.
-- KEYS: view or leftover. ARGV: incarnation.
-- Returns 1: it says so; 0: it has another incarnation, or does not exist.
local has = redis.call('HMGET', KEYS[1], 'incarnation', 'deleting')
if has[1] ~= ARGV[1] then return 0 end
if has[2] == '1' then return 1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], 'deleting', '1')
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
