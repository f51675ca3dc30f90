-- Name the view's history in a registry, if the registry names none, or one that the view has.
-- KEYS: registry. ARGV: field, incarnation, the view's last history, all its histories.
-- Returns 1: it is named; 2: by this call; 0: the registry names a history that the view does not have, or that of a
-- later incarnation.
local was = redis.call('HGET', KEYS[1], ARGV[1])
local incarnation, id = string.match(was or '', '^(%x+) (%x+)$')
if incarnation == ARGV[2] and not string.find(ARGV[4], id, 1, true) then return 0 end
if incarnation and incarnation > ARGV[2] then return 0 end
if was == ARGV[2] .. ' ' .. ARGV[3] then return 1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return 2
