-- All is made: the record becomes the view.
-- KEYS: view, leftover. ARGV: incarnation; then fields and values that the record has not, or has from before.
-- `healthy_ms` is since when the filter is known to have every key, by the clock of its metadata node.
-- Returns 1 published, by this call or before; 0 there is another view, or somebody else has the record, or removes what
-- it names.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.pcall('HGET', KEYS[1], 'incarnation') == ARGV[1] and 1 or 0
end
local record = redis.call('HMGET', KEYS[2], 'incarnation', 'deleting')
if record[1] ~= ARGV[1] or record[2] ~= '0' then return 0 end
redis.call('PERSIST', KEYS[2]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[2], unpack(ARGV, 2))
local now = redis.call('TIME')
redis.call('HSET', KEYS[2], 'healthy_ms', string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)))
redis.call('RENAME', KEYS[2], KEYS[1])
return 1
