-- KEYS: expansion_flag. ARGV: mutex, events channel, filter. Returns 1; 0: the mutex was not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], 'released ' .. ARGV[3])
return 1
