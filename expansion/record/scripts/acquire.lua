-- Take the mutex. KEYS: expansion_flag, token counter. ARGV: owner, TTL (ms).
-- Returns {1, "<owner>:<token>"}, or {0, "<holder>", its remaining ms}.
local holder = redis.call('GET', KEYS[1])
if holder then return {0, holder, redis.call('PTTL', KEYS[1])} end
-- A script that has written once may continue if Redis is out of memory: abort and finish must be able to free some.
redis.call('DEL', KEYS[1])
local mutex = ARGV[1] .. ':' .. redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], mutex, 'PX', ARGV[2])
return {1, mutex}
