-- Drop a writer from the register. The writer says that all its entries are folded; nothing is compared.
-- KEYS: view. ARGV: incarnation, the writer's field, number of its registration.
-- Returns 1: dropped; 0: it was not registered under that number, or the view is gone, or has another incarnation.
-- include left.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'format', ARGV[2])
if view[1] ~= ARGV[1] or view[2] ~= '3' then return 0 end
if string.match(view[3] or '', '^%d+') ~= ARGV[3] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[2])
note_left(KEYS[1], ARGV[2], ARGV[3])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
