-- The view has a position that was trimmed out of its lane: the view went back. Acknowledged keys may be missing. What
-- was trimmed may have begun all layers of the view, and is in their shards, so none of these is taken for empty.
-- Nobody applies entries from there on: the lane will be replaced.
-- KEYS: view. ARGV: incarnation, lane, the lane's number, its era in the view, slot of the current generation, id of
-- the position.
-- Returns 1: the filter is degraded; 0: the view has changed, or has another lane or position there.
-- include lane.lua
-- include layers.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'deleting', 'lanes', 'bloom_filter_current_index',
  'folded' .. ARGV[5] .. '.' .. ARGV[2], 'degraded')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= '0' or view[5] ~= ARGV[5] then return 0 end
local number, id = string.match(view[6] or '', '^(%d+) (%d+%-%d+) ')
if not lane_is(view[4], ARGV[2], ARGV[3] .. ':' .. ARGV[4]) or number ~= ARGV[3] or id ~= ARGV[6] then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], 'degraded', '1')
for slot = 0, 1 do
  local name = 'folded' .. slot .. '.' .. ARGV[2]
  local position = string.match(redis.call('HGET', KEYS[1], name) or '', '^(' .. ARGV[3] .. ' .* )%d+$')
  if position then redis.call('HSET', KEYS[1], name, position .. layers_of(KEYS[1], slot)) end
end
if view[7] ~= '1' then redis.call('HINCRBY', KEYS[1], 'version', 1) end
return 1
