-- KEYS: expansion_flag. ARGV: mutex, TTL (ms). Returns 1; 0: the mutex is not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
