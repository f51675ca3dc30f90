-- Say that a process does not have all lost shards in memory. If no registered writer has, the filter becomes degraded.
-- KEYS: view. ARGV: incarnation, slot, what the view says is lost, the writer's field, the field for what it says.
-- Returns the number of writers that have not said so; -1: the view says that something else is lost, or nothing.
local view = redis.call('HGETALL', KEYS[1])
local field = {}
for i = 1, #view, 2 do field[view[i]] = view[i + 1] end
if field.incarnation ~= ARGV[1] or field.format ~= '3' or field['lost' .. ARGV[2]] ~= ARGV[3] then return -1 end
local said, missing = ARGV[2] .. ' ' .. ARGV[3], 0
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
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
