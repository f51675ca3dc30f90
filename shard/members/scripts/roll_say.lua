-- Say that none of a writer's entries is missing in a lane under an era. This replaces what the writer said of that
-- lane before.
-- KEYS: view. ARGV: incarnation, the writer's field, lane, the lane's number, era.
-- Returns 1: said; 0: the view has changed, has that era by now, or the lane has another stream there; -1: the writer
-- is not registered.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
local i, named = 0, false
for number, era in string.gmatch(view[4], '(%d+):([^,]+)') do
  named = named or (i == tonumber(ARGV[3]) and number == ARGV[4] and era ~= ARGV[5])
  i = i + 1
end
if not named then return 0 end
if not view[5] then return -1 end
local said = {}
for one in string.gmatch(view[5], '[^ ]+') do
  if string.match(one, '^(%d+)%.') ~= ARGV[3] then said[#said + 1] = one end
end
said[#said + 1] = ARGV[3] .. '.' .. ARGV[4] .. ':' .. ARGV[5]
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[2], table.concat(said, ' '))
return 1
