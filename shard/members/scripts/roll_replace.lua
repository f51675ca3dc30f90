-- Put another stream in the place of a lane that was closed. No era of it is accepted yet: that is the roll call's.
-- Positions of generations that are built go over to the new stream, where they count when the era is taken.
-- KEYS: view. ARGV: incarnation, lane, the lane's number, its era in the view, the new stream's number, the node that it
-- is on ('': the same one).
-- Returns 1 replaced, 0 the view is another one, or has another stream or era as that lane.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes',
  'folded0.' .. ARGV[2], 'folded1.' .. ARGV[2], 'generation0', 'generation1', 'lane_nodes')
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
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], 'lanes', table.concat(lanes, ','))
if ARGV[6] ~= '' then
  local named, nodes = {}, {}
  for node in string.gmatch(view[9], '[^,]+') do named[#named + 1] = node end
  for i = 1, #lanes do nodes[i] = named[(i - 1) % #named + 1] end
  nodes[tonumber(ARGV[2]) + 1] = ARGV[6]
  redis.call('HSET', KEYS[1], 'lane_nodes', table.concat(nodes, ','))
end
for slot = 0, 1 do
  local number, position = string.match(view[5 + slot] or '', '^(%d+) (.+)$')
  if number == ARGV[3] and string.find(view[7 + slot] or '', ' built=1 ', 1, true) then
    redis.call('HSET', KEYS[1], 'folded' .. slot .. '.' .. ARGV[2], ARGV[5] .. ' ' .. position)
  end
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
