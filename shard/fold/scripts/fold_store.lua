-- Store up to which position the shards of a generation hold a lane's entries. Returns up to where the lane may be
-- trimmed.
-- KEYS: view. ARGV: slot, the caller's token, lane, the lane's number, id, position with the number of layers that had
-- begun there, the era under which it was read, 1 if the lane is too long for builds: then writers keep nothing for
-- builds either.
-- Returns two ids, '' if all entries are needed: the least id that a generation of the view or a build needs, and the
-- same without regard to builds. 0: the caller is no longer the writer, the lane was replaced, or the view has left
-- that era, or went back to before one of these layers: nobody could parse it with such a position.
-- A generation that is being built, and is not current, has the hold instead of a position.
-- include before.lua
-- include lane.lua
-- include layers.lua
local function folded(slot) -- the id; nil: nothing was folded in this lane
  local text = redis.call('HGET', KEYS[1], 'folded' .. slot .. '.' .. ARGV[3])
  local number, id = string.match(text or '', '^(%d+) (%d+%-%d+) ')
  return number == ARGV[4] and id or nil
end
local view = redis.call('HMGET', KEYS[1], 'token' .. ARGV[1], 'lanes')
if view[1] ~= ARGV[2] or not lane_is(view[2], ARGV[3], ARGV[4] .. ':' .. ARGV[7])
  or tonumber(string.match(ARGV[6], '%d+$')) > layers_of(KEYS[1], ARGV[1]) then
  return 0
end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
if ARGV[8] == '1' then redis.call('HDEL', KEYS[1], 'near') end
local was = folded(ARGV[1])
if not was or before(was, ARGV[5]) then
  redis.call('HSET', KEYS[1], 'folded' .. ARGV[1] .. '.' .. ARGV[3], ARGV[4] .. ' ' .. ARGV[6])
end
local current = redis.call('HGET', KEYS[1], 'bloom_filter_current_index')
local least
for slot = 0, 1 do
  local generation = redis.call('HGET', KEYS[1], 'generation' .. slot) or ''
  if generation ~= '' and (tostring(slot) == current or string.find(generation, ' built=1 ', 1, true)) then
    local id = folded(slot)
    if not id then return {'', ''} end
    if not least or before(id, least) then least = id end
  end
end
if not least then return {'', ''} end
local number, hold = string.match(redis.call('HGET', KEYS[1], 'hold.' .. ARGV[3]) or '', '^(%d+) (%d+%-%d+)$')
if number == ARGV[4] and before(hold, least) then return {hold, least} end
return {least, least}
