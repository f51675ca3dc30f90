-- Stop a load. KEYS: load. ARGV: incarnation.
-- Returns 1: nobody can publish it any more; 0: it was published, or the record belongs to another load.
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'state')
if v[1] ~= ARGV[1] or v[2] ~= 'loading' then return 0 end
redis.call('UNLINK', KEYS[1])
return 1
