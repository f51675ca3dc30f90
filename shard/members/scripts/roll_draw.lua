-- Draw a number for the stream that replaces a lane; no other process gets it. The view says from now on that there may
-- be streams which it does not name.
-- KEYS: view, token. ARGV: incarnation, lane, the lane's number, its era in the view.
-- Returns the number; 0: the view has changed, or the lane has another stream or era there.
-- include draw.lua
-- include lane.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' then return 0 end
if not lane_is(view[4], ARGV[2], ARGV[3] .. ':' .. ARGV[4]) then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
local number = draw(KEYS[2], tonumber(ARGV[3]) + 1)
redis.call('HSETNX', KEYS[1], 'strays', '1')
return number
