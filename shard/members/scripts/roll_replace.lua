-- Put another stream in the place of a closed lane. No era of it is accepted yet; a roll call has to do that. Positions
-- of generations that are current or built move to the new stream. There their id is 0-0 until its era is taken.
-- KEYS: view. ARGV: incarnation, lane, the lane's number, its era in the view, number of the new stream, its node ('':
-- the same one).
-- Returns 1: replaced; 0: the view has changed, or the lane has another stream or era there.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes',
  'folded0.' .. ARGV[2], 'folded1.' .. ARGV[2], 'generation0', 'generation1', 'lane_nodes',
  'bloom_filter_current_index')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
local lanes, found = {}, false
for lane in string.gmatch(view[4], '[^,]+') do
  if #lanes == tonumber(ARGV[2]) and lane == ARGV[3] .. ':' .. ARGV[4] then
    found = true
    lane = ARGV[5] .. ':0000000000000000'
  end
  lanes[#lanes + 1] = lane
end
if not found then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], 'lanes', table.concat(lanes, ','))
if ARGV[6] ~= '' then
  local named, nodes = {}, {}
  for node in string.gmatch(view[9], '[^,]+') do named[#named + 1] = node end
  for i = 1, #lanes do nodes[i] = named[(i - 1) % #named + 1] end
  nodes[tonumber(ARGV[2]) + 1] = ARGV[6]
  redis.call('HSET', KEYS[1], 'lane_nodes', table.concat(nodes, ','))
end
for slot = 0, 1 do
  local number, rest = string.match(view[5 + slot] or '', '^(%d+) %d+%-%d+ (.+)$')
  local is_read = tostring(slot) == view[10] or string.find(view[7 + slot] or '', ' built=1 ', 1, true)
  if number == ARGV[3] and is_read then
    redis.call('HSET', KEYS[1], 'folded' .. slot .. '.' .. ARGV[2], ARGV[5] .. ' 0-0 ' .. rest)
  end
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
