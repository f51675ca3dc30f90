-- Publish a first view, where there is none or the marker of a filter that was deleted. KEYS: view, expansion_flag, job,
-- count, token. ARGV: mutex, events channel, filter, then pairs.
-- Returns 1 done, 0 there is a view already, -1 the mutex is not ours.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HGET', KEYS[1], 'dropped') ~= 'done' then return 0 end
redis.call('DEL', KEYS[1], KEYS[3], KEYS[4])
redis.call('PERSIST', KEYS[5])
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
