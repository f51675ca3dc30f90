-- Publish a first view, where there is none or the marker of a filter that was deleted, or one of an incarnation that
-- was replaced. KEYS: view, expansion_flag, job, count, token. ARGV: mutex, events channel, filter, that incarnation,
-- then pairs.
-- Returns 1 done, 0 there is a view already, -1 the mutex is not ours.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local was = redis.call('HMGET', KEYS[1], 'incarnation', 'dropped', 'trusted_ms')
if was[1] and was[2] ~= 'done' and was[1] ~= ARGV[4] then return 0 end
redis.call('DEL', KEYS[1], KEYS[3], KEYS[4])
redis.call('PERSIST', KEYS[5])
for i = 5, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
-- It is later than the one that was deleted, whatever clocks say.
local now = redis.call('HGET', KEYS[1], 'trusted_ms')
if was[3] and tonumber(was[3]) >= tonumber(now) then
  redis.call('HSET', KEYS[1], 'trusted_ms', string.format('%.0f', tonumber(was[3]) + 1))
end
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
