-- Make the caller the writer of a generation's shards, under a new token.
-- KEYS: view, token. ARGV: incarnation, slot, number of the generation, the least token, random part, the token of the
-- writer that the view must name ('': any).
-- Returns the token's number; 0: the view does not have the generation; -1: it names another writer.
-- include draw.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'generation' .. ARGV[2], 'format', 'token' .. ARGV[2])
if view[1] ~= ARGV[1] or view[3] ~= '3' then return 0 end
if not view[2] or string.match(view[2], '^number=(%d+) ') ~= ARGV[3] then return 0 end
if ARGV[6] ~= '' and view[4] ~= ARGV[6] then return -1 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
local number = draw(KEYS[2], tonumber(ARGV[4]))
redis.call('HSET', KEYS[1], 'token' .. ARGV[2], string.format('%.0f ', number) .. ARGV[5])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return number
