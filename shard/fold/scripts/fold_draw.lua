-- Make the caller the writer of a generation's shards, under a new token.
-- KEYS: view, token. ARGV: incarnation, slot, the generation's number, at least this token, random part, token
-- of the writer that the view must name, '': whoever that is.
-- Returns the token's number, 0 where the view has no such generation, -1 where it names another writer.
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'generation' .. ARGV[2], 'format', 'token' .. ARGV[2])
if view[1] ~= ARGV[1] or view[3] ~= '3' then return 0 end
if not view[2] or string.match(view[2], '^number=(%d+) ') ~= ARGV[3] then return 0 end
if ARGV[6] ~= '' and view[4] ~= ARGV[6] then return -1 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
local number = redis.call('INCR', KEYS[2])
if number < tonumber(ARGV[4]) then
  number = tonumber(ARGV[4])
  redis.call('SET', KEYS[2], ARGV[4])
end
redis.call('HSET', KEYS[1], 'token' .. ARGV[2], string.format('%.0f ', number) .. ARGV[5])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return number
