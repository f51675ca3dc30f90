-- Make the other generation the current one, if its shards and the lanes still have every key.
-- KEYS: view, mutex of the job. ARGV: incarnation, slot, number of the generation, the caller's mutex, number of the
-- generation's shards, the version of the view that the caller goes by: a request that is executed late, over a
-- connection that broke, must not undo what its sender has done since; a history, which the view gets if the generation
-- is a later one than that which is read (as in build_cutover.lua).
-- Returns 1: it is current; 0: the view does not have it; -1: it was never built, or lacks keys; -2: it was not folded
-- in one of the view's lanes; -3: the mutex is another's; -4: the view has changed.
-- include history.lua
-- include mutex.lua
if not has_mutex(KEYS[2], ARGV[4]) then return -3 end
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'bloom_filter_current_index', 'generation' .. ARGV[2], 'lanes',
  'deleting', 'version')
if view[1] ~= ARGV[1] or view[5] ~= '0' or string.match(view[3], '^number=(%d+) ') ~= ARGV[3] then return 0 end
if view[2] == ARGV[2] then return 1 end
if view[6] ~= ARGV[6] then return -4 end
if not string.find(view[3], ' built=1 ', 1, true) then return -1 end
local lane = 0
for number in string.gmatch(view[4], '(%d+):%x+') do
  local folded = redis.call('HGET', KEYS[1], 'folded' .. ARGV[2] .. '.' .. lane) or ''
  if string.match(folded, '^(%d+) ') ~= number then return -2 end
  lane = lane + 1
end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
local read = redis.call('HGET', KEYS[1], 'generation' .. view[2])
if tonumber(ARGV[3]) > tonumber(string.match(read, '^number=(%d+) ')) then note_history(KEYS[1], ARGV[7]) end
redis.call('HSET', KEYS[1], 'bloom_filter_current_index', ARGV[2], 'bloom_filter_size', ARGV[5])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
