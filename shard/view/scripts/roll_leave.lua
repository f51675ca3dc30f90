-- Take a writer out of the register. All its entries are folded: it says so, nothing is compared.
-- KEYS: view. ARGV: incarnation, the writer's field.
-- Returns 1 it has left, 0 it was not registered, or the view is another incarnation's or gone.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' or not view[3] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[2])
local left = string.sub(ARGV[2], 8) .. ':' .. string.match(view[3], '^%d+') .. ' ' .. (redis.call('HGET', KEYS[1], 'left') or '')
redis.call('HSET', KEYS[1], 'left', string.match(string.sub(left, 1, 1600), '^(.*) ')) -- the last 32 or so
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
