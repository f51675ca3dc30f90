-- Drop a filter's incarnation, which has no shard that anybody may read any more. KEYS as in enter.lua. ARGV: filter,
-- incarnation, name.
-- Returns 1; 0: another incarnation is named, and stays, also in the list. 'several' (enter_found.lua) stays, too.
local was = redis.call('HGET', KEYS[1], ARGV[1])
if was and was ~= ARGV[2] and was ~= 'several' then return 0 end
if was == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1], '{history}' .. ARGV[1]) end
if KEYS[2] then redis.call('SREM', KEYS[2], ARGV[3]) end
return 1
