-- Publish the first view of a filter whose shards were loaded, with its counts, in one step, where there is none or the
-- marker of a filter that was deleted; what stays of the record says that it is done.
-- KEYS: view, expansion_flag, job, count, load, token. ARGV: mutex, events channel, filter, incarnation, dump,
-- TTL of what stays (ms), count of view arguments, view pairs..., count pairs...
-- Returns 1 done, 0 there is a view already, -1 the mutex is not ours, -2 the record is another's.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HGET', KEYS[1], 'dropped') ~= 'done' then return 0 end
local was = redis.call('HGET', KEYS[1], 'trusted_ms')
local v = redis.call('HMGET', KEYS[5], 'incarnation', 'state')
if v[1] ~= ARGV[4] or v[2] ~= 'loading' then return -2 end
redis.call('DEL', KEYS[1], KEYS[3], KEYS[4], KEYS[5])
redis.call('PERSIST', KEYS[6])
local last = 7 + tonumber(ARGV[7])
for i = 8, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
-- It is later than the one that was deleted, whatever clocks say.
if was and tonumber(was) >= tonumber(redis.call('HGET', KEYS[1], 'trusted_ms')) then
  redis.call('HSET', KEYS[1], 'trusted_ms', string.format('%.0f', tonumber(was) + 1))
end
for i = last + 1, #ARGV, 2 do redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[5], 'state', 'done', 'dump', ARGV[5], 'incarnation', ARGV[4])
redis.call('PEXPIRE', KEYS[5], ARGV[6])
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
