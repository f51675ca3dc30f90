-- Raise the count of one layer to what its bits say. KEYS: view, count. ARGV: incarnation, epoch, the count's field, the least that
-- it must be. It is never lowered: others may have counted since the bits were read.
-- Returns 1 raised, 0 it was not less, -2 another view is stored or the filter is being deleted.
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'dropped')
if v[1] ~= ARGV[1] or v[2] ~= ARGV[2] or v[3] then return -2 end
if tonumber(redis.call('HGET', KEYS[2], ARGV[3]) or 0) >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
return 1
