-- Remove a shard that was made in vain.
-- KEYS: shard. ARGV: its header as it was made. Returns 1 removed, 0 it is another's.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
return redis.call('UNLINK', KEYS[1])
