-- Drop a writer in doubt from the register. In each lane all that it has acknowledged is before the notice of its
-- removal, and the shards of all generations must have that. A generation that is being built need not have it until
-- its cutover is near: a build begins again if a lane loses something.
-- KEYS: view. ARGV: incarnation, the writer's field, number of its registration, the view's lanes when the notices were
-- appended, the id of the notice in each lane.
-- Returns 1: removed; 0: the view has changed, or has other lanes; -1: the writer is not registered under that number,
-- or not in doubt; -2: the shards do not have all of it yet.
-- include before.lua
-- include left.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes', ARGV[2],
  'bloom_filter_current_index', 'generation0', 'generation1')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' or view[4] ~= ARGV[4] then return 0 end
if string.match(view[5] or '', '^%d+%?') ~= ARGV[3] .. '?' then return -1 end
for slot = 0, 1 do
  local generation, lane = view[7 + slot] or '', 0
  if generation ~= '' and (tostring(slot) == view[6] or string.find(generation, ' built=1 ', 1, true)) then
    for number in string.gmatch(view[4], '(%d+):[^,]+') do
      local folded = redis.call('HGET', KEYS[1], 'folded' .. slot .. '.' .. lane)
      local of, id = string.match(folded or '', '^(%d+) (%d+%-%d+) ')
      if of ~= number or before(id, ARGV[5 + lane]) then return -2 end
      lane = lane + 1
    end
  end
end
if redis.call('HEXISTS', KEYS[1], 'near') == 1 then
  local lane = 0
  for number in string.gmatch(view[4], '(%d+):[^,]+') do
    local of, id = string.match(redis.call('HGET', KEYS[1], 'hold.' .. lane) or '', '^(%d+) (%d+%-%d+)$')
    if of == number and before(id, ARGV[5 + lane]) then return -2 end
    lane = lane + 1
  end
end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HDEL', KEYS[1], ARGV[2])
note_left(KEYS[1], ARGV[2], ARGV[3])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
