-- Write the end of a job into its record, and what the record says of it into the history, in one step.
-- KEYS: expansion_flag, job, history. ARGV: mutex, 1 to delete what is in the record, count of job arguments, job pairs...,
-- most entries that are kept, then pairs (name in the entry, field of the record)...
-- An entry is one line: name=value with a blank between, in the order given; control characters, blanks and % of a
-- value as %XX; fields that the record does not have, or that are empty, are left out.
-- Returns 1, or -1 the mutex is not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
-- A script that has written once may go on where Redis is out of memory: an abort or a finish must be able to free it.
redis.call('PERSIST', KEYS[2])
local last, kept = 3 + tonumber(ARGV[3]), {}
for i = 4, last, 2 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  kept[ARGV[i]] = 1
end
if ARGV[2] == '1' then
  -- Field by field, last: in a slot that is on its way a key that was deleted may not be touched again.
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
