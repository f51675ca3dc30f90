-- Move a shard to its name under the new epoch and leave a tombstone.
-- KEYS: old name, new name. ARGV: tag (2 bytes), TTL of the tombstone (ms).
-- Returns 1 moved, 0 was there already, -1 no shard with a tag under either name, -2 the new name is a tombstone.
local function kind(key)
  local t = redis.call('TYPE', key).ok
  if t == 'none' then return 'none' end
  if t ~= 'string' then return 'tombstone' end
  if redis.call('GETRANGE', key, 0, 1) == ARGV[1] then return 'shard' end
  return 'zombie'
end
local new = kind(KEYS[2])
if new == 'tombstone' then return -2 end
if new == 'shard' then return 0 end
if kind(KEYS[1]) ~= 'shard' then return -1 end
-- First, so that where the slot is on its way in a cluster, which lets no name be taken there, nothing else is done.
if new == 'zombie' then redis.call('DEL', KEYS[2]) end
redis.call('RENAME', KEYS[1], KEYS[2])
redis.call('PERSIST', KEYS[2])
redis.call('RPUSH', KEYS[1], 'moved')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
