-- OR an upload into the live shard, which must carry its tag: BITOP into an absent key would create it.
-- KEYS: live shard, upload. ARGV: tag. Returns 1 done, -1 the shard is not there, -2 the upload is not there.
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GETRANGE', KEYS[1], 0, 1) ~= ARGV[1] then
  redis.call('DEL', KEYS[2])
  return -1
end
if redis.call('EXISTS', KEYS[2]) == 0 then return -2 end
redis.call('BITOP', 'OR', KEYS[1], KEYS[1], KEYS[2])
redis.call('DEL', KEYS[2])
return 1
