-- Bring a lost shard that was made anew to its name under the new epoch, and leave tombstones: rename.lua for the epoch in which
-- it was given up. What is under the old name, cut or come back, is given up as well.
-- KEYS: first name, old name, new name. ARGV: tag (2 bytes), TTL of the tombstones (ms).
-- Returns 1 moved, 0 was there already, -1 no shard with a tag under any name, -2 the new name is a tombstone.
local function kind(key)
  local t = redis.call('TYPE', key).ok
  if t == 'none' then return 'none' end
  if t ~= 'string' then return 'tombstone' end
  if redis.call('GETRANGE', key, 0, 1) == ARGV[1] then return 'shard' end
  return 'zombie'
end
local new = kind(KEYS[3])
if new == 'tombstone' then return -2 end
if new == 'shard' then return 0 end
-- Unsure since before: it lives on, or is lost again.
local from = kind(KEYS[1]) == 'shard' and KEYS[1] or kind(KEYS[2]) == 'shard' and KEYS[2]
if not from then return -1 end
-- Before the new name can be used: who holds the view before may still find its blocks there, and add to them.
if from == KEYS[1] and redis.call('TYPE', KEYS[2]).ok == 'string' then redis.call('DEL', KEYS[2]) end
if new == 'zombie' then redis.call('DEL', KEYS[3]) end
redis.call('RENAME', from, KEYS[3])
redis.call('PERSIST', KEYS[3])
for i = 1, 2 do
  if redis.call('EXISTS', KEYS[i]) == 0 then redis.call('RPUSH', KEYS[i], 'moved') end
  redis.call('PEXPIRE', KEYS[i], ARGV[2])
end
return 1
