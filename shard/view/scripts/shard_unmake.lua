-- Remove a shard that is not needed after all.
-- KEYS: shard. ARGV: its header as it was made. Returns 1: removed; 0: the header has changed.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
return redis.call('UNLINK', KEYS[1])
