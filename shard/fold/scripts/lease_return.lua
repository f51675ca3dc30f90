-- Give back the lease of a filter's folder. KEYS: folder. ARGV: owner. Returns 1; 0: another process has the lease.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
