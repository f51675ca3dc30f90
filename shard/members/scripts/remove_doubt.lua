-- Put a writer in doubt: it may be gone. If it still runs, it registers again, under another number.
-- KEYS: view. ARGV: incarnation, the writer's field, number of its registration.
-- Returns 1: in doubt, by this call or before; 0: the view has changed; -1: the writer is not registered under that
-- number.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
local has, said = string.match(view[4] or '', '^(%d+)%??(.*)$')
if has ~= ARGV[3] then return -1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[2], has .. '?' .. said)
return 1
