-- Change the view. KEYS: view, expansion_flag, job. ARGV: mutex, events channel, filter, incarnation, epoch of the view
-- that is replaced, 1 to reset the job, guard (a field of the job, or empty), count of view arguments, view pairs..., job
-- pairs...
-- Returns 1 done, -1 the mutex is not ours, -2 the epoch moved on, the filter is being deleted, or its
-- view went back, -3 the last change is not fenced yet, -4 the guard is 1.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'fenced_epoch', 'dropped', 'recovery')
if v[1] ~= ARGV[4] or v[2] ~= ARGV[5] or v[4] or v[5] == 'due' then return -2 end
if v[3] ~= v[2] then return -3 end
if ARGV[7] ~= '' and redis.call('HGET', KEYS[3], ARGV[7]) == '1' then return -4 end
-- A script that has written once may go on where Redis is out of memory: an abort or a finish must be able to free it.
redis.call('PERSIST', KEYS[1])
local last = 8 + tonumber(ARGV[8])
for i = 9, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
-- What was asked for while this build was being prepared, and what is known of the generation in use.
local kept = {abort = 1, hold = 1, paused = 1, rows_per_second = 1, dead_generation = 1, dead_at_build = 1,
  complete_generation = 1, complete_at = 1}
for i = last + 1, #ARGV, 2 do
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
  kept[ARGV[i]] = 1
end
if ARGV[6] == '1' then
  -- Field by field, last: in a slot that is on its way a key that was deleted may not be touched again.
  for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
    if not kept[field] then redis.call('HDEL', KEYS[3], field) end
  end
end
redis.call('PUBLISH', ARGV[2], 'view ' .. ARGV[3])
return 1
