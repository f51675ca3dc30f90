-- Say that no shard of a generation is lost any more.
-- KEYS: view. ARGV: incarnation, slot, what the view says is lost, the caller's token.
-- Returns 1; 0: the view says that something else is lost, or nothing, or another process is the generation's writer by
-- now.
local lost = 'lost' .. ARGV[2]
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', lost, 'token' .. ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' or view[3] ~= ARGV[3] or view[4] ~= ARGV[4] then return 0 end
redis.call('HDEL', KEYS[1], lost)
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(name, 1, 6) == 'lacks.' then redis.call('HDEL', KEYS[1], name) end
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
