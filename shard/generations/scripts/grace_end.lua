-- A lane was trimmed past the position of a generation that is not read: the view went back. So the view does not go
-- back to that generation, and the lanes are not kept for it.
-- KEYS: view, generations whose shards will be deleted. ARGV: incarnation, slot, number of the generation, lane, the
-- lane's number, id of the position.
-- Returns 1: done; 0: the view has changed, reads that generation, or has another position.
-- include unbuild.lua
local generation = 'generation' .. ARGV[2]
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'bloom_filter_current_index', generation,
  'folded' .. ARGV[2] .. '.' .. ARGV[4])
if view[1] ~= ARGV[1] or view[2] == ARGV[2] or string.match(view[3], '^number=(%d+) ') ~= ARGV[3] then return 0 end
local number, id = string.match(view[4] or '', '^(%d+) (%d+%-%d+) ')
if number ~= ARGV[5] or id ~= ARGV[6] or not string.find(view[3], ' built=1 ', 1, true) then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
unbuild(KEYS[1], KEYS[2], ARGV[2])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
