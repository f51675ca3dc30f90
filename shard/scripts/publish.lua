-- Publish a first view. KEYS: view, expansion_flag, job, count. ARGV: mutex, events channel, filter, then pairs.
-- Returns 1 done, 0 there is a view already, -1 the mutex is not ours.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('DEL', KEYS[3], KEYS[4])
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
