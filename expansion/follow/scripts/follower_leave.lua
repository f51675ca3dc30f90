-- Give the lease of a filter's tail back. KEYS: tail. ARGV: owner. Returns 1, or 0 where it was not ours.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
