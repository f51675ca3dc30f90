-- The view went back to an older state: register again writers that it had, and no longer has. If the view has another
-- era of a lane than the one in which they were last registered, it may have taken that era without them: then no era
-- of the lane is accepted, until they have answered or are removed.
-- Where there is no room for a writer, what it keeps may be missing for ever: the filter is degraded.
-- KEYS: view. ARGV: incarnation, the lanes that the view had, the most writers, then fields of writers and numbers of
-- registrations.
-- Returns how many were registered, or had no room; -1: the view is gone, or has another incarnation.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return -1 end
local time = redis.call('TIME')
local now, entered, there, writers = time[1] * 1000000 + time[2], 0, {}, 0
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(name, 1, 7) == 'writer.' then there[name], writers = true, writers + 1 end
end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
for i = 4, #ARGV, 2 do
  if not there[ARGV[i]] then
    entered = entered + 1
    if writers + entered <= tonumber(ARGV[3]) then
      redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f', math.max(now, tonumber(ARGV[i + 1]) + 1)))
    else
      redis.call('HSET', KEYS[1], 'degraded', '1')
    end
  end
end
if entered == 0 then return 0 end
local had, lanes = {}, {}
for lane in string.gmatch(ARGV[2], '[^,]+') do had[#had + 1] = lane end
for lane in string.gmatch(view[4], '[^,]+') do
  lanes[#lanes + 1] = lane == had[#lanes + 1] and lane or string.match(lane, '^%d+') .. ':0000000000000000'
end
redis.call('HSET', KEYS[1], 'lanes', table.concat(lanes, ','))
redis.call('HINCRBY', KEYS[1], 'version', 1)
return entered
