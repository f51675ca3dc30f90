-- Lower a mark, if it is what the caller has read. KEYS: marks. ARGV: field, the mark as read, the lower one.
-- Returns 1; 0: it is another one.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
