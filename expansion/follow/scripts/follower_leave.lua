-- Release the lease of a filter's follower. KEYS: tail. ARGV: owner. Returns 1; 0: another owner has it.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
