-- Retire a shard: its memory is freed, its name cannot be taken for an empty shard.
-- KEYS: name. ARGV: TTL of the tombstone (ms). Returns 1 where a string was there, 0 where not.
-- Where the slot is on its way in a cluster, a node that has deleted a string refuses the rest: run again, which makes the
-- tombstone where the slot goes.
local was = redis.call('TYPE', KEYS[1]).ok == 'string'
-- A script that has written once may go on where Redis is out of memory: this frees some.
if was then redis.call('DEL', KEYS[1]) else redis.call('PERSIST', KEYS[1]) end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('RPUSH', KEYS[1], 'retired') end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return was and 1 or 0
