-- Say that a shard of a generation is lost, so that a process which has it in memory makes it again.
-- KEYS: view. ARGV: incarnation, slot, number of the generation, "<layer>.<shard>".
-- Returns 1: said, or another shard of this generation was said to be lost before; 0: the view does not have the
-- generation.
local lost = 'lost' .. ARGV[2]
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', 'generation' .. ARGV[2], lost)
if view[1] ~= ARGV[1] or view[2] ~= '3' or string.match(view[3] or '', '^number=(%d+) ') ~= ARGV[3] then return 0 end
if string.match(view[4] or '', '^(%d+) ') == ARGV[3] then return 1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
local time = redis.call('TIME')
local ms = string.format(' %.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', KEYS[1], lost, ARGV[3] .. ' ' .. ARGV[4] .. ms)
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
