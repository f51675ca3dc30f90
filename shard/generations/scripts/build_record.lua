-- Record what the shards of a build have, and keep the lanes from there on.
-- KEYS: view, record of the build. ARGV: slot, the caller's token, number of the generation, the caller's own record,
-- `lanes` and `eras` of the view and the replication id of the metadata node when the build began, number of keys in
-- the shards; for each lane its number, the id and the position.
-- Returns 1; 0: the caller is no longer the builder.
local view = redis.call('HMGET', KEYS[1], 'token' .. ARGV[1], 'bloom_filter_current_index')
if view[1] ~= ARGV[2] or view[2] == ARGV[1] then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[2], 'generation', ARGV[3], 'rows', ARGV[4], 'lanes', ARGV[5], 'eras', ARGV[6],
  'home', ARGV[7], 'keys', ARGV[8])
for i = 9, #ARGV, 3 do
  local lane = (i - 9) / 3
  redis.call('HSET', KEYS[2], 'at.' .. lane, ARGV[i] .. ' ' .. ARGV[i + 2])
  redis.call('HSET', KEYS[1], 'hold.' .. lane, ARGV[i] .. ' ' .. ARGV[i + 1])
end
return 1
