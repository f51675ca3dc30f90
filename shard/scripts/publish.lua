-- Publish a first view, where there is none or the marker of a filter that was deleted, or one of an incarnation that
-- was replaced. Where the shards were loaded the counts come with it in one step, and what stays of the load's record
-- says that it is done.
-- KEYS: view, expansion_flag, job, count, token, and of a load its record. ARGV: mutex, events channel, filter, that
-- incarnation, count of view arguments, view pairs..., and of a load incarnation, dump, TTL of what stays (ms), count
-- pairs...
-- Returns 1 done, 0 there is a view already, -1 the mutex is not ours, -2 the record is another's.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local was = redis.call('HMGET', KEYS[1], 'incarnation', 'dropped', 'trusted_ms')
if was[1] and was[2] ~= 'done' and was[1] ~= ARGV[4] then return 0 end
local last = 5 + tonumber(ARGV[5])
if KEYS[6] then
  local v = redis.call('HMGET', KEYS[6], 'incarnation', 'state')
  if v[1] ~= ARGV[last + 1] or v[2] ~= 'loading' then return -2 end
end
redis.call('DEL', KEYS[1], KEYS[3], KEYS[4])
redis.call('PERSIST', KEYS[5])
for i = 6, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
-- It is later than the one that was deleted, whatever clocks say.
local now = redis.call('HGET', KEYS[1], 'trusted_ms')
if was[3] and tonumber(was[3]) >= tonumber(now) then
  redis.call('HSET', KEYS[1], 'trusted_ms', string.format('%.0f', tonumber(was[3]) + 1))
end
if KEYS[6] then
  for i = last + 4, #ARGV, 2 do redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
  redis.call('DEL', KEYS[6])
  redis.call('HSET', KEYS[6], 'state', 'done', 'dump', ARGV[last + 2], 'incarnation', ARGV[last + 1])
  redis.call('PEXPIRE', KEYS[6], ARGV[last + 3])
end
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
