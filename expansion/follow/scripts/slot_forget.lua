-- Delete the note of a replication slot, unless a coordinator has named the slot since the note was read.
-- KEYS: slots. ARGV: field, the note that was read. Returns 1: deleted; 0: there is another note, or none.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
