-- Write the heartbeat of a coordinator. KEYS: its record. ARGV: TTL (ms), number of strings in pairs, pairs..., fields
-- to delete...
-- Returns 1: the record was there; 0: it was lost, or is new.
local was = redis.call('EXISTS', KEYS[1])
-- Commands after a write run even if Redis is out of memory. An operator who wants to know why needs this record.
redis.call('PERSIST', KEYS[1])
local last = 2 + tonumber(ARGV[2])
for i = 3, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = last + 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return was
