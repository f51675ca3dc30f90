-- Remove a key of an incarnation that has no view.
-- KEYS: the key. ARGV: the type that it must have. Returns 1: removed; 0: not removed.
if redis.call('TYPE', KEYS[1]).ok ~= ARGV[1] then return 0 end
return redis.call('UNLINK', KEYS[1])
