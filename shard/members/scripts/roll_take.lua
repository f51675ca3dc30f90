-- Take the era of a lane, if every registered writer has said that none of its entries is missing under it. Positions
-- in the lane go back to its first entry: the entry that they named may be gone. They never go up, as what is between
-- may have been trimmed; but 0-0 is in a stream that took another's place (roll_replace.lua). The number of layers that
-- had begun stays: all begin with that number again. But shards of any layer may have bits of entries that the lane has
-- lost, and a view that lay beside the lane may have gone back behind what was folded: so none is taken for empty.
-- If the lane's history is known to go on under the new era, no writer needs to say anything, and positions stay.
-- KEYS: view. ARGV: incarnation, lane, the lane's number, its era in the view, the new era, position of the first
-- entry, 1 if the history goes on, 1 if the node that the lane has left still has its era.
-- Eras that the stream has left are noted (`past`), some fifty of them. One that it left before entries may have been
-- lost (`!`) is not taken again: whoever slept since would go on from a place under it.
-- Returns the number of writers that have not said it; 0: the era is taken; -1: the view has changed, or the lane has
-- another stream or era there; -2: the stream has left this era before, and must be replaced.
-- include before.lua
-- include history.lua
-- include layers.lua
local view = redis.call('HGETALL', KEYS[1])
local field, writers = {}, {}
for i = 1, #view, 2 do
  field[view[i]] = view[i + 1]
  if string.sub(view[i], 1, 7) == 'writer.' then writers[#writers + 1] = view[i] end
end
if field.incarnation ~= ARGV[1] or field.format ~= '3' or field.deleting ~= '0' then return -1 end
local lanes, found = {}, false
for lane in string.gmatch(field.lanes, '[^,]+') do
  if #lanes == tonumber(ARGV[2]) and lane == ARGV[3] .. ':' .. ARGV[4] then
    found = true
    lane = ARGV[3] .. ':' .. ARGV[5]
  end
  lanes[#lanes + 1] = lane
end
if not found then return -1 end
local stream, past = ARGV[2] .. '.' .. ARGV[3] .. ':', field.past or ''
past = stream .. ARGV[4] .. ' ' .. past
if ARGV[7] ~= '1' and ARGV[8] ~= '1' then
  past = string.gsub(past, '(%S+:%x+) ', function(one)
    return string.sub(one, 1, #stream) == stream and one .. '! ' or nil
  end)
end
if string.find(past, stream .. ARGV[5] .. '! ', 1, true) then return -2 end
local said, missing, without = stream .. ARGV[5], 0, {}
for _, name in ipairs(writers) do
  local others, has = {}, false
  for one in string.gmatch(field[name], '[^ ]+') do
    if one == said then has = true else others[#others + 1] = one end
  end
  if not has then missing = missing + 1 end
  without[name] = table.concat(others, ' ')
end
if ARGV[7] ~= '1' and missing > 0 then return missing end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], 'lanes', table.concat(lanes, ','), 'past', string.sub(past, 1, 1024))
note_history(KEYS[1], ARGV[5])
local first = string.match(ARGV[6], '^%d+%-%d+')
for slot = 0, 1 do
  local name = 'folded' .. slot .. '.' .. ARGV[2]
  local number, id, layers = string.match(field[name] or '', '^(%d+) (%d+%-%d+) %x+ (%d+)$')
  if ARGV[7] ~= '1' and number == ARGV[3] and (id == '0-0' or not before(id, first)) then
    redis.call('HSET', KEYS[1], name, ARGV[3] .. ' ' .. ARGV[6] .. ' ' .. layers)
  end
  if ARGV[7] ~= '1' then redis.call('HSET', KEYS[1], 'filled' .. slot, layers_of(KEYS[1], slot)) end
end
for _, name in ipairs(writers) do redis.call('HSET', KEYS[1], name, without[name]) end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 0
