-- Every shard of a filter that is being deleted is a tombstone: leave a marker in place of its view.
-- KEYS: view, expansion_flag, job, count, history, token, marks. ARGV: mutex, events channel, filter, incarnation, TTL of what is
-- left (ms).
-- Returns 1 done, now or before, -1 the mutex is not ours, 0 the view is another one, or is not being deleted.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'dropped', 'last_generation', 'trusted_ms')
if v[1] ~= ARGV[4] or not v[2] then return 0 end
if v[2] == 'done' then return 1 end
-- A script that has written once may go on where Redis is out of memory: this frees some.
redis.call('UNLINK', KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[7])
-- Numbers of generations are not used again: counts that come late are of one that is over.
redis.call('HSET', KEYS[1], 'dropped', 'done', 'incarnation', v[1], 'last_generation', v[3])
if v[4] then redis.call('HSET', KEYS[1], 'trusted_ms', v[4]) end
redis.call('HSET', KEYS[4], 'dropped', 'done')
for _, key in ipairs({KEYS[1], KEYS[4], KEYS[6]}) do redis.call('PEXPIRE', key, ARGV[5]) end
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
