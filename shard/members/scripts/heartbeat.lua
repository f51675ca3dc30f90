-- A coordinator says that it is there. KEYS: its record. ARGV: TTL (ms), count of strings in pairs, pairs..., fields to
-- delete...
-- Returns 1 where the record was there, 0 where it had been lost, or was never made.
local was = redis.call('EXISTS', KEYS[1])
-- A script that has written once may go on where Redis is out of memory: whoever looks why needs this.
redis.call('PERSIST', KEYS[1])
local last = 2 + tonumber(ARGV[2])
for i = 3, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = last + 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return was
