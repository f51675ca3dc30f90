-- Accept, for an operator, that what a filter has lost stays lost: all shards are there; those that were missing are
-- empty.
-- KEYS: view. ARGV: incarnation, slot, what the view says is lost, or '', the caller's token, the version of the view
-- that the caller goes by: a request that is executed late, over a connection that broke, must not accept what was lost
-- since.
-- Returns 1: the filter is no longer degraded; 0: the view has changed, says that something else is lost, or another
-- process is the generation's writer by now.
local lost = 'lost' .. ARGV[2]
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', lost, 'token' .. ARGV[2], 'deleting',
  'bloom_filter_current_index', 'version')
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[5] ~= '0' or view[6] ~= ARGV[2] then return 0 end
if (view[3] or '') ~= ARGV[3] or view[4] ~= ARGV[4] or view[7] ~= ARGV[5] then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HDEL', KEYS[1], lost)
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(name, 1, 6) == 'lacks.' then redis.call('HDEL', KEYS[1], name) end
end
-- Store another token, not an earlier one: a process that read the view before, and sleeps, can then draw none by it
-- (fold_draw_next()).
redis.call('HSET', KEYS[1], 'degraded', '0', 'token' .. ARGV[2], string.match(ARGV[4], '^%d+') .. ' ffffffffffffffff')
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
