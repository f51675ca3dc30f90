-- Write the list of nodes that belong together. KEYS: nodes. ARGV: the list as it was judged ('' where there was none), the list.
-- Returns 1, or 0 if another one is there by now.
local there = redis.call('GET', KEYS[1]) or ''
if there == ARGV[2] then return 1 end
if there ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
