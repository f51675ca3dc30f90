-- The view lacks histories: another server was the metadata node meanwhile. What was acknowledged there may be missing
-- here, so the filter becomes degraded, and a build that is under way begins again. The view gets a history of its own,
-- so that the other server is not believed either, if it comes back. If the caller knows all that happened, the view
-- only notes these histories. Numbers of generations that the view does not know of may have been used, and whoever
-- slept since may read shards of that name: so the next numbers are far above those, also that of a build.
-- KEYS: view, record of a build, generations whose shards will be deleted.
-- ARGV: incarnation, the view's own new history (0000000000000000: the caller knows), then histories that others have
-- seen, the last one last.
-- Returns 1: it is degraded, or has them by now; 0: the view had all of them; -1: there is no such view.
-- include history.lua
-- include unbuild.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'history', 'bloom_filter_current_index',
  'last_generation')
if view[1] ~= ARGV[1] or view[2] ~= '3' then return -1 end
local missed = {}
for i = 3, #ARGV do
  if not string.find(view[3] or '', ARGV[i], 1, true) then missed[#missed + 1] = ARGV[i] end
end
if #missed == 0 then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
for _, id in ipairs(missed) do note_history(KEYS[1], id) end
if ARGV[2] == '0000000000000000' then
  redis.call('HINCRBY', KEYS[1], 'version', 1)
  return 1
end
note_history(KEYS[1], ARGV[2])
local other = view[4] == '0' and '1' or '0'
redis.call('HSET', KEYS[1], 'degraded', '1', 'strays', '1', 'last_generation', string.format('%.0f', view[5] + 1000))
unbuild(KEYS[1], KEYS[3], other, true)
redis.call('HSET', KEYS[1], 'token' .. other, '0 0000000000000000')
redis.call('DEL', KEYS[2])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
