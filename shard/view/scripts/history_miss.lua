-- The view lacks histories: another server was the metadata node meanwhile. What was acknowledged there may be missing
-- here, so the filter becomes degraded, and a build that is under way begins again. The view gets a history of its own,
-- so that the other server is not believed either, if it comes back. If the caller knows all that happened, the view
-- only notes these histories, and accepts no replication id that the caller's view did not: that of a server which was
-- left, and to which an address leads again. What writers have said of ids is older than that. If there is one, the
-- view gets a history of its own, too. Numbers of generations that the view does not know of may have been used, and
-- whoever slept since may read shards of that name: so the next numbers are far above those, also that of a build.
-- KEYS: view, record of a build, generations whose shards will be deleted.
-- ARGV: incarnation, the view's own new history (0000000000000000: only note histories), the ids that the view of a
-- caller who knows accepted, then histories that others have seen, the last one last.
-- Returns 1: it is degraded, or has them by now; 0: the view had all of them; -1: there is no such view.
-- include history.lua
-- include unbuild.lua
local function accept_no_other(key, known)
  local kept, lanes, eras = {}, redis.call('HGET', key, 'lanes'), redis.call('HGET', key, 'eras')
  local left = string.gsub(lanes, ':(%x+)', function(id)
    return not string.find(known, id, 1, true) and ':0000000000000000' or nil
  end)
  for id in string.gmatch(eras, '%x+') do
    if string.find(known, id, 1, true) then kept[#kept + 1] = id end
  end
  kept = #kept > 0 and table.concat(kept, ' ') or '-'
  if left == lanes and kept == eras then return false end
  redis.call('HSET', key, 'lanes', left, 'eras', kept)
  for _, name in ipairs(redis.call('HKEYS', key)) do
    if string.sub(name, 1, 6) == 'wrote.' then redis.call('HDEL', key, name) end
    if string.sub(name, 1, 7) == 'writer.' then
      redis.call('HSET', key, name, string.match(redis.call('HGET', key, name), '^[^ ]+'))
    end
  end
  return true
end
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'history', 'bloom_filter_current_index',
  'last_generation')
if view[1] ~= ARGV[1] or view[2] ~= '3' then return -1 end
local missed = {}
for i = 4, #ARGV do
  if not string.find(view[3] or '', ARGV[i], 1, true) then missed[#missed + 1] = ARGV[i] end
end
if #missed == 0 then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
for _, id in ipairs(missed) do note_history(KEYS[1], id) end
if ARGV[2] == '0000000000000000' or ARGV[3] ~= '' then
  if ARGV[3] ~= '' and accept_no_other(KEYS[1], ARGV[3]) then note_history(KEYS[1], ARGV[2]) end
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
