-- Draw the number of the stream that is to replace a lane: one that nobody else gets. The view says that there may be
-- streams from now on that it does not name.
-- KEYS: view, token. ARGV: incarnation, lane, the lane's number, its era in the view.
-- Returns the number, 0 the view is another one, or has another stream or era as that lane.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
local i, found = 0, false
for lane in string.gmatch(view[4], '[^,]+') do
  found = found or (i == tonumber(ARGV[2]) and lane == ARGV[3] .. ':' .. ARGV[4])
  i = i + 1
end
if not found then return 0 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
local number = redis.call('INCR', KEYS[2])
if number <= tonumber(ARGV[3]) then
  number = tonumber(ARGV[3]) + 1
  redis.call('SET', KEYS[2], string.format('%.0f', number))
end
redis.call('HSETNX', KEYS[1], 'strays', '1')
return number
