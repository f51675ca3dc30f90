-- Have a registry name the history that a view has, where it names none, or one that the view has gone through.
-- KEYS: registry. ARGV: field, incarnation, the view's last history, all of them.
-- Returns 1 it names it; 0 it names one that the view has not gone through, or a later incarnation's.
local was = redis.call('HGET', KEYS[1], ARGV[1])
local incarnation, id = string.match(was or '', '^(%x+) (%x+)$')
if incarnation == ARGV[2] and not string.find(ARGV[4], id, 1, true) then return 0 end
if incarnation and incarnation > ARGV[2] then return 0 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return 1
