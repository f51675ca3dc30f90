-- Make a view, or the record of what is left over, say that all that it names is being deleted.
-- KEYS: view or leftover. ARGV: incarnation; also, where it is deleted because it has expired, the time of that.
-- Returns 1: it says so; 0: it has another incarnation, or does not exist; -1: it expires at another time, or never.
local has = redis.call('HMGET', KEYS[1], 'incarnation', 'deleting', 'expire_at')
if has[1] ~= ARGV[1] then return 0 end
if has[2] == '1' then return 1 end
if ARGV[2] and has[3] ~= ARGV[2] then return -1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], 'deleting', '1')
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
