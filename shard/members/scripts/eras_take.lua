-- Accept other replication ids of the shards' nodes, or one less.
-- KEYS: view, generations whose shards will be deleted.
-- ARGV: incarnation, the ids that the view has, the ids that it takes, 1 if nothing was lost. If something may be lost,
-- all writers must have written what they have of the current generation (eras_say.lua).
-- The filter becomes degraded if a writer did not have all, if none of them knew all that former writers had added, or
-- if no writer is registered. If a writer did not have all, writers in doubt are not awaited; otherwise one of those
-- may be the one that knows. The other generation was not written: it counts as not built, so that it cannot become
-- current again.
-- Returns the number of writers that have not written; 0: taken; -1: the view has changed, or has other ids.
-- include history.lua
-- include unbuild.lua
local view = redis.call('HGETALL', KEYS[1])
local field = {}
for i = 1, #view, 2 do field[view[i]] = view[i + 1] end
if field.incarnation ~= ARGV[1] or field.format ~= '3' or field.deleting ~= '0' then return -1 end
if field.eras ~= ARGV[2] then return -1 end
local number = string.match(field['generation' .. field.bloom_filter_current_index], '^number=(%d+) ')
local wrote_of = ARGV[3] .. ' of ' .. number
local all = wrote_of .. ' all'
local known, is_known = all .. ' ' .. (string.match(field.left or '', '^[^ ]+') or '-'), false
local missing, doubtful, partly, said = 0, 0, false, {}
for name, value in pairs(field) do
  local writer = string.match(name, '^writer%.(.*)$')
  local wrote = writer and field['wrote.' .. writer] or ''
  if wrote == wrote_of .. ' partly' then partly = true
  elseif wrote == known then is_known = true
  elseif writer and wrote ~= all and string.sub(wrote, 1, #all + 1) ~= all .. ' ' then
    if string.match(value, '^%d+%?') then doubtful = doubtful + 1 else missing = missing + 1 end
  end
  if string.sub(name, 1, 6) == 'wrote.' then said[#said + 1] = name end
end
if not partly then missing = missing + doubtful end
if ARGV[4] ~= '1' and missing > 0 then return missing end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], 'eras', ARGV[3])
for id in string.gmatch(ARGV[3], '%x+') do -- '-': none
  if not string.find(ARGV[2], id, 1, true) then note_history(KEYS[1], id) end
end
if ARGV[4] ~= '1' then
  if partly or not is_known then redis.call('HSET', KEYS[1], 'degraded', '1') end
  unbuild(KEYS[1], KEYS[2], field.bloom_filter_current_index == '0' and '1' or '0')
end
for _, name in ipairs(said) do redis.call('HDEL', KEYS[1], name) end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 0
