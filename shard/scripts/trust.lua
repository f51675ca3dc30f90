-- Set the lineages that a filter trusts. KEYS: view, expansion_flag, history. ARGV: mutex (or empty: then what is there counts),
-- events channel, filter, incarnation, the field `trusted`, what it must be now (without a mutex; empty: missing), the wall clock
-- (ms), 1 to keep a `trusted_ms` that is there, an entry for the history (or empty), most entries that are kept.
-- Returns 1 done, -1 the mutex is not ours, -2 the view is another one or the filter is being deleted, -3 the field is another.
if ARGV[1] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'trusted', 'dropped', 'trusted_ms')
if v[1] ~= ARGV[4] or v[3] then return -2 end
if ARGV[1] == '' and (v[2] or '') ~= ARGV[6] then return -3 end
-- A script that has written once may go on where Redis is out of memory.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], 'trusted', ARGV[5])
if not v[4] then
  redis.call('HSET', KEYS[1], 'trusted_ms', ARGV[7])
elseif ARGV[8] ~= '1' then -- it only grows: whoever has a smaller one has an older view
  redis.call('HSET', KEYS[1], 'trusted_ms', string.format('%.0f', math.max(tonumber(ARGV[7]), tonumber(v[4]) + 1)))
end
if ARGV[9] ~= '' then
  redis.call('LPUSH', KEYS[3], ARGV[9])
  redis.call('LTRIM', KEYS[3], 0, tonumber(ARGV[10]) - 1)
end
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
