-- Drop a generation that is not current from a view: its grace is over, or it is being built.
-- KEYS: view, mutex of the job, generations whose shards will be deleted, record of a build. ARGV: incarnation, slot,
-- number of the generation, the caller's mutex.
-- Returns 1: dropped; 0: the view does not have it; -1: it is the current one; -3: the mutex is another's.
-- include mutex.lua
if not has_mutex(KEYS[2], ARGV[4]) then return -3 end
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'bloom_filter_current_index', 'generation' .. ARGV[2])
if view[1] ~= ARGV[1] or string.match(view[3], '^number=(%d+) ') ~= ARGV[3] then return 0 end
if view[2] == ARGV[2] then return -1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[3], ARGV[1] .. ' ' .. ARGV[3], view[3])
redis.call('HSET', KEYS[1], 'generation' .. ARGV[2], '', 'token' .. ARGV[2], '0 0000000000000000')
if redis.call('HGET', KEYS[1], 'near') == ARGV[3] then redis.call('HDEL', KEYS[1], 'near') end
for lane = 0, 15 do redis.call('HDEL', KEYS[1], 'folded' .. ARGV[2] .. '.' .. lane, 'hold.' .. lane) end
redis.call('HDEL', KEYS[1], 'filled' .. ARGV[2])
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('DEL', KEYS[4])
return 1
