-- Store up to where the shards of a generation hold a lane's entries, and say up to where the lane may be trimmed.
-- KEYS: view. ARGV: slot, token of the caller, lane, the lane's number, id, position, era that it was read under.
-- Returns the least id that a generation of the view still needs, '' where one needs all; 0 the caller writes no more, the
-- lane was replaced, or the view has left that era.
local function lane_number(n)
  local i = 0
  for number in string.gmatch(redis.call('HGET', KEYS[1], 'lanes') or '', '%d+') do
    if i == n then return number end
    i = i + 1
  end
end
local function before(a, b) -- of two ids
  local ams, an = string.match(a, '^(%d+)-(%d+)$')
  local bms, bn = string.match(b, '^(%d+)-(%d+)$')
  if #ams ~= #bms then return #ams < #bms end
  if ams ~= bms then return ams < bms end
  if #an ~= #bn then return #an < #bn end
  return an < bn
end
local function folded(slot) -- the id; nil: none in this lane
  local text = redis.call('HGET', KEYS[1], 'folded' .. slot .. '.' .. ARGV[3])
  local number, id = string.match(text or '', '^(%d+) (%d+%-%d+) ')
  return number == ARGV[4] and id or nil
end
local eras = redis.call('HGET', KEYS[1], 'eras') or ''
if redis.call('HGET', KEYS[1], 'token' .. ARGV[1]) ~= ARGV[2] or lane_number(tonumber(ARGV[3])) ~= ARGV[4] or
   not string.find(eras, ARGV[7], 1, true) then
  return 0
end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
local was = folded(ARGV[1])
if not was or before(was, ARGV[5]) then
  redis.call('HSET', KEYS[1], 'folded' .. ARGV[1] .. '.' .. ARGV[3], ARGV[4] .. ' ' .. ARGV[6])
end
local least
for slot = 0, 1 do
  local generation = redis.call('HGET', KEYS[1], 'generation' .. slot)
  if generation and generation ~= '' then
    local id = folded(slot)
    if not id then return '' end
    if not least or before(id, least) then least = id end
  end
end
return least
