-- All is made: turn the record into the view.
-- KEYS: view, leftover; for a filter that was loaded also the record of the load. ARGV: incarnation; for such a filter
-- also the incarnation in the load's record, the dump, and for how long (ms) that record goes on saying `done`; then
-- fields and values that the record does not have, or has in an older state.
-- `healthy_ms` says since when the filter is known to have every key, by the clock of its metadata node.
-- Returns 1: published, by this call or before; 0: there is another view, or another process has the record, or removes
-- what it names; -1: another dump is being loaded.
local first = KEYS[3] and 5 or 2
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.pcall('HGET', KEYS[1], 'incarnation') == ARGV[1] and 1 or 0
end
local record = redis.call('HMGET', KEYS[2], 'incarnation', 'deleting')
if record[1] ~= ARGV[1] or record[2] ~= '0' then return 0 end
if KEYS[3] then
  local load = redis.call('HMGET', KEYS[3], 'incarnation', 'state')
  if load[1] ~= ARGV[2] or load[2] ~= 'loading' then return -1 end
end
redis.call('PERSIST', KEYS[2]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[2], unpack(ARGV, first))
local now = redis.call('TIME')
redis.call('HSET', KEYS[2], 'healthy_ms', string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)))
redis.call('RENAME', KEYS[2], KEYS[1])
if KEYS[3] then
  redis.call('DEL', KEYS[3])
  redis.call('HSET', KEYS[3], 'state', 'done', 'dump', ARGV[3], 'incarnation', ARGV[1])
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
end
return 1
