-- Write the job's record. KEYS: expansion_flag, job. ARGV: mutex, 1 to delete the record's other fields, job pairs...
-- Returns 1; -1: the mutex is not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
-- A script that has written once may continue if Redis is out of memory: abort and finish must be able to free some.
redis.call('PERSIST', KEYS[2])
-- What is known of generations outlives the job that found it.
local kept = {dead_generation = 1, dead_at_build = 1, swept = 1, system = 1, verification0 = 1, verification1 = 1}
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  kept[ARGV[i]] = 1
end
if ARGV[2] == '1' then
  -- Delete field by field, last: in a migrating slot a deleted key may not be accessed again.
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if not kept[field] then redis.call('HDEL', KEYS[2], field) end
  end
end
return 1
