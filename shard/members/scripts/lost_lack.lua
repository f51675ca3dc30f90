-- Say that a process cannot make all lost shards again: it does not have them in memory, or something else has their
-- names. If no registered writer can, the filter becomes degraded.
-- KEYS: view. ARGV: incarnation, slot, what the view says is lost, the writer's field, the field for what it says, 1 if
-- it has them in memory; the last three are left out by who only asks.
-- Returns the number of writers that have said that they have them in memory; -1: the view says that something else is
-- lost, or nothing.
local view = redis.call('HGETALL', KEYS[1])
local field = {}
for i = 1, #view, 2 do field[view[i]] = view[i + 1] end
if field.incarnation ~= ARGV[1] or field.format ~= '3' or field['lost' .. ARGV[2]] ~= ARGV[3] then return -1 end
local said = ARGV[2] .. ' ' .. ARGV[3]
local said_has, silent, has = said .. ' in memory', 0, 0
if ARGV[4] then redis.call('PERSIST', KEYS[1]) end -- commands after a write run at maxmemory, too
if ARGV[4] and field[ARGV[4]] then
  field[ARGV[5]] = ARGV[6] == '1' and said_has or said
  redis.call('HSET', KEYS[1], ARGV[5], field[ARGV[5]])
end
for name in pairs(field) do
  local writer = string.match(name, '^writer%.(.*)$')
  local says = writer and field['lacks.' .. writer]
  if says == said_has then has = has + 1
  elseif writer and says ~= said then silent = silent + 1 end
end
if ARGV[4] and silent == 0 and field.degraded ~= '1' then
  redis.call('HSET', KEYS[1], 'degraded', '1')
  redis.call('HINCRBY', KEYS[1], 'version', 1)
end
return has
