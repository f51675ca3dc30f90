-- Register a writer, before its first entry. One that is registered stays so.
-- KEYS: view. ARGV: incarnation, the writer's field, how many writers there may be.
-- Returns 1 registered, 0 the view is another incarnation's or gone, -1 the filter is being deleted, -2 there are too
-- many.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' then return 0 end
if view[3] ~= '0' then return -1 end
if view[4] then return 1 end
local writers = 0
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(name, 1, 7) == 'writer.' then writers = writers + 1 end
end
if writers >= tonumber(ARGV[3]) then return -2 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[2], '-')
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
