-- Remove the record: nothing is left over.
-- KEYS: leftover. ARGV: incarnation. Returns 1: removed; 0: it has another incarnation, or does not exist.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
