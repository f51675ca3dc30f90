-- Store how many keys were new to a generation, up to the positions that are stored or less far. It only goes up.
-- KEYS: view. ARGV: slot, token of the caller, generation, keys. Returns 1 stored, 0 the caller writes no more.
local name = 'keys' .. ARGV[1]
local has = redis.call('HMGET', KEYS[1], 'token' .. ARGV[1], name)
if has[1] ~= ARGV[2] then return 0 end
local of, keys = string.match(has[2] or '', '^(%d+) (%d+)$')
if of == ARGV[3] and tonumber(keys) >= tonumber(ARGV[4]) then return 1 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], name, ARGV[3] .. ' ' .. ARGV[4])
return 1
