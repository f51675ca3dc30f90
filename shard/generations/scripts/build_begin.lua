-- Enter a generation that will be built beside the current one. It has no writer yet.
-- KEYS: view, mutex of the job, record of a build. ARGV: incarnation, slot, number of the generation, the caller's
-- mutex, text of the generation.
-- Returns 1: entered; 0: there is no such view, or the filter is being deleted; -1: the slot is taken, or the number
-- was used before; -3: the mutex is another's.
-- include mutex.lua
if not has_mutex(KEYS[2], ARGV[4]) then return -3 end
local view = redis.call('HMGET', KEYS[1], 'format', 'incarnation', 'deleting', 'bloom_filter_current_index',
  'generation' .. ARGV[2], 'last_generation')
if view[1] ~= '3' or view[2] ~= ARGV[1] or view[3] ~= '0' then return 0 end
if view[4] == ARGV[2] or view[5] ~= '' or tonumber(view[6]) >= tonumber(ARGV[3]) then return -1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[1], 'generation' .. ARGV[2], ARGV[5], 'token' .. ARGV[2], '0 0000000000000000',
  'last_generation', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
