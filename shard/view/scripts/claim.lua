-- Write the list of nodes that belong together.
-- KEYS: nodes. ARGV: the list that was judged ('': there was none), the new list.
-- Returns 1; 0: another list is there by now.
local there = redis.call('GET', KEYS[1]) or ''
if there == ARGV[2] then return 1 end
if there ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
