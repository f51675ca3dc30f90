-- Say that a shard of a generation is lost, so that a process which has it in memory makes it again. Of a generation
-- that is not read nobody does: the view does not go back to it, and the lanes are not kept for it.
-- KEYS: view, generations whose shards will be deleted.
-- ARGV: incarnation, slot, number of the generation, "<layer>.<shard>".
-- Returns 1: said, or another shard of this generation was said to be lost before; 0: the view does not have the
-- generation.
-- include unbuild.lua
local lost, generation = 'lost' .. ARGV[2], 'generation' .. ARGV[2]
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', generation, lost, 'bloom_filter_current_index')
if view[1] ~= ARGV[1] or view[2] ~= '3' or string.match(view[3] or '', '^number=(%d+) ') ~= ARGV[3] then return 0 end
local is_kept = view[5] ~= ARGV[2] and string.find(view[3], ' built=1 ', 1, true)
if string.match(view[4] or '', '^(%d+) ') == ARGV[3] and not is_kept then return 1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
local time = redis.call('TIME')
local ms = string.format(' %.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', KEYS[1], lost, ARGV[3] .. ' ' .. ARGV[4] .. ms)
if is_kept then unbuild(KEYS[1], KEYS[2], ARGV[2]) end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
