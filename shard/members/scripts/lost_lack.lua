-- Say that a process has not all shards in memory that are lost. When no registered writer has, the filter is degraded.
-- KEYS: view. ARGV: incarnation, slot, what the view says is lost, the writer's field, what it says it in.
-- Returns how many writers have not said it; -1 the view says something else is lost, or nothing.
local view = redis.call('HGETALL', KEYS[1])
local field = {}
for i = 1, #view, 2 do field[view[i]] = view[i + 1] end
if field.incarnation ~= ARGV[1] or field.format ~= '3' or field['lost' .. ARGV[2]] ~= ARGV[3] then return -1 end
local said, missing = ARGV[2] .. ' ' .. ARGV[3], 0
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
if field[ARGV[4]] then
  redis.call('HSET', KEYS[1], ARGV[5], said)
  field[ARGV[5]] = said
end
for name in pairs(field) do
  local writer = string.match(name, '^writer%.(.*)$')
  if writer and field['lacks.' .. writer] ~= said then missing = missing + 1 end
end
if missing == 0 and field.degraded ~= '1' then
  redis.call('HSET', KEYS[1], 'degraded', '1')
  redis.call('HINCRBY', KEYS[1], 'version', 1)
end
return missing
