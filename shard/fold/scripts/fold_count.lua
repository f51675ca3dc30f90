-- Store how many keys of a generation were new up to a position in each lane, before any of them is in its shards.
-- KEYS: view. ARGV: slot, the caller's token, generation, number of keys; then for each lane "<number>:<era>" and the
-- id.
-- Returns 1: stored, or more keys are stored; 0: the caller is no longer the writer, a lane was replaced, or the view
-- has left its era.
local name, lanes, at = 'keys' .. ARGV[1], {}, {}
for i = 5, #ARGV, 2 do
  lanes[#lanes + 1] = ARGV[i]
  at[#at + 1] = ' ' .. ARGV[i] .. ' ' .. ARGV[i + 1]
end
local has = redis.call('HMGET', KEYS[1], 'token' .. ARGV[1], 'lanes', name)
if has[1] ~= ARGV[2] or has[2] ~= table.concat(lanes, ',') then return 0 end
local of, keys = string.match(has[3] or '', '^(%d+) (%d+)')
if of == ARGV[3] and tonumber(keys) > tonumber(ARGV[4]) then return 1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], name, ARGV[3] .. ' ' .. ARGV[4] .. table.concat(at))
return 1
