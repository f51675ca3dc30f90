-- Store the first full mark of a lane: behind it a generation that does not grow takes no keys.
-- KEYS: view. ARGV: slot, the caller's token, generation, lane, "<number>:<era>" of the lane, id of the mark.
-- Returns 1: the first mark is stored; 0: the caller is no longer the writer, the lane was replaced, or the view has
-- left that era.
-- include before.lua
-- include lane.lua
local name = 'full' .. ARGV[1] .. '.' .. ARGV[4]
local has = redis.call('HMGET', KEYS[1], 'token' .. ARGV[1], 'lanes', name)
if has[1] ~= ARGV[2] or not lane_is(has[2], ARGV[4], ARGV[5]) then return 0 end
local of, id = string.match(has[3] or '', '^(%d+ %d+:%x+) (%d+%-%d+)$')
if of == ARGV[3] .. ' ' .. ARGV[5] and before(id, ARGV[6]) then return 1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], name, ARGV[3] .. ' ' .. ARGV[5] .. ' ' .. ARGV[6])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
