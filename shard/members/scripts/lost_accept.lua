-- An operator accepts that what is lost of a filter stays lost: all shards are there, empty where they were missing.
-- KEYS: view. ARGV: incarnation, slot, what the view says is lost, or '', the caller's token.
-- Returns 1 the filter is not degraded any more; 0 the view is another one, says something else is lost, or another one
-- writes the generation's shards by now.
local lost = 'lost' .. ARGV[2]
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', lost, 'token' .. ARGV[2], 'deleting',
  'bloom_filter_current_index')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[5] ~= '0' or view[6] ~= ARGV[2] then return 0 end
if (view[3] or '') ~= ARGV[3] or view[4] ~= ARGV[4] then return 0 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HDEL', KEYS[1], lost)
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(name, 1, 6) == 'lacks.' then redis.call('HDEL', KEYS[1], name) end
end
-- Another token, not an earlier one: whoever has read the view before and sleeps draws none by it (fold_draw_next()).
redis.call('HSET', KEYS[1], 'degraded', '0', 'token' .. ARGV[2], string.match(ARGV[4], '^%d+') .. ' ffffffffffffffff')
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
