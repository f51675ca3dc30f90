-- Register a writer, before its first entry. A registered writer stays so, unless it is in doubt, or its number is too
-- low: then it gets another number. Numbers are times, so that none is used twice if the view goes back.
-- KEYS: view. ARGV: incarnation, the writer's field, the most writers, the least number.
-- Returns the number of the registration; 0: the view is gone, or has another incarnation; -1: the filter is being
-- deleted; -2: there are too many writers.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' then return 0 end
if view[3] ~= '0' then return -1 end
local least = tonumber(ARGV[4])
local has, doubt, said = string.match(view[4] or '', '^(%d+)(%??)(.*)$')
if has and doubt == '' and tonumber(has) >= least then return tonumber(has) end
if not has then
  local writers = 0
  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(name, 1, 7) == 'writer.' then writers = writers + 1 end
  end
  if writers >= tonumber(ARGV[3]) then return -2 end
end
local time = redis.call('TIME')
local number = math.max(time[1] * 1000000 + time[2], least, has and tonumber(has) + 1 or 1)
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', number) .. (said or ''))
if not has then redis.call('HINCRBY', KEYS[1], 'version', 1) end
return number
