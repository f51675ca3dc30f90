-- Raise a number of a hash. KEYS: the hash. ARGV: field; the number, below 2^53.
-- Returns 1. Nothing if a larger one is there: whoever sleeps behind its look must not lower what others have noted.
local there = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '')
if not there or there < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
