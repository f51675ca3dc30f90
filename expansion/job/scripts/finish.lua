-- Write the end of a job to its record, and fields of the record to the history, in one step.
-- KEYS: expansion_flag, job, history. ARGV: mutex, 1 to delete the record's other fields, job pairs..., an empty string,
-- maximum number of entries, then pairs (name in the entry, field of the record)...
-- An entry is one line of name=value, separated by blanks, in the order given. Control characters, blanks and % of a
-- value are written as %XX; missing and empty fields are omitted.
-- Returns 1; -1: the mutex is not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
-- A script that has written once may continue if Redis is out of memory: abort and finish must be able to free some.
redis.call('PERSIST', KEYS[2])
local last = 3
-- What is known of generations outlives the job that found it.
local kept = {dead_generation = 1, dead_at_build = 1, swept = 1, system = 1, verification0 = 1, verification1 = 1}
while ARGV[last] ~= '' do
  redis.call('HSET', KEYS[2], ARGV[last], ARGV[last + 1])
  kept[ARGV[last]] = 1
  last = last + 2
end
if ARGV[2] == '1' then
  -- Delete field by field, last: in a migrating slot a deleted key may not be accessed again.
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if not kept[field] then redis.call('HDEL', KEYS[2], field) end
  end
end
local entry = {}
for i = last + 2, #ARGV, 2 do
  local value = redis.call('HGET', KEYS[2], ARGV[i + 1])
  if value and value ~= '' then
    value = string.gsub(value, '[%c %%]', function(c) return string.format('%%%02X', string.byte(c)) end)
    entry[#entry + 1] = ARGV[i] .. '=' .. value
  end
end
redis.call('LPUSH', KEYS[3], table.concat(entry, ' '))
redis.call('LTRIM', KEYS[3], 0, tonumber(ARGV[last + 1]) - 1)
return 1
