-- Begin a build, or begin it again: delete its record, and keep the lanes from where the current generation has folded
-- them. The view says from now on that its shards are made under the caller's token.
-- KEYS: view, record of the build. ARGV: slot, the caller's token, text of the generation with that token in its
-- layers.
-- Returns 1; 0: the caller is no longer the builder.
local view = redis.call('HMGET', KEYS[1], 'token' .. ARGV[1], 'bloom_filter_current_index', 'lanes', 'deleting')
if view[1] ~= ARGV[2] or view[2] == ARGV[1] or view[4] ~= '0' then return 0 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('DEL', KEYS[2])
redis.call('HDEL', KEYS[1], 'near')
redis.call('HSET', KEYS[1], 'generation' .. ARGV[1], ARGV[3])
local lane = 0
for number in string.gmatch(view[3], '(%d+):%x+') do
  local folded = redis.call('HGET', KEYS[1], 'folded' .. view[2] .. '.' .. lane) or ''
  local of, id = string.match(folded, '^(%d+) (%d+%-%d+) ')
  redis.call('HSET', KEYS[1], 'hold.' .. lane, number .. ' ' .. (of == number and id or '0-0'))
  lane = lane + 1
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
return 1
