-- Drop a writer that is gone from the register. Its acknowledged entries may be missing: the filter becomes degraded.
-- The era of every lane must have changed: then the writer, if it wakes, acknowledges nothing before it reads the view.
-- A build has not read all of them either, if it has read the lanes for the last time: so its cutover is not near any
-- more. When it reads them again it finds the other eras.
-- KEYS: view. ARGV: incarnation, the writer's field, the view's lanes, then for each lane the era of its node.
-- Returns 1: removed; 0: the view has changed, or has other lanes; -1: the writer is not registered; -2: the writer has
-- said of every lane that none of its entries is missing; -3: a lane's node has the era of the view.
-- include left.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' or view[4] ~= ARGV[3] then return 0 end
if not view[5] then return -1 end
local lane, silent = 0, false
for number, era in string.gmatch(view[4], '(%d+):([^,]+)') do
  if era == ARGV[4 + lane] then return -3 end
  local has = ' ' .. lane .. '.' .. number .. ':' .. ARGV[4 + lane] .. ' '
  silent = silent or not string.find(' ' .. view[5] .. ' ', has, 1, true)
  lane = lane + 1
end
if not silent then return -2 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HDEL', KEYS[1], ARGV[2], 'near')
note_left(KEYS[1], ARGV[2], string.match(view[5], '^%d+'))
redis.call('HSET', KEYS[1], 'degraded', '1')
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
