-- Say of a writer that it may be gone. One that is there registers again, under another number.
-- KEYS: view. ARGV: incarnation, the writer's field, its registration's number.
-- Returns 1 said, by this call or before, 0 the view is another one, -1 the writer is not registered under that number.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
local has, said = string.match(view[4] or '', '^(%d+)%??(.*)$')
if has ~= ARGV[3] then return -1 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[2], has .. '?' .. said)
return 1
