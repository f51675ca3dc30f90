-- A build begins, maybe anew: its record goes, and the lanes are kept from where the generation that is read has folded
-- them. Its shards are made under the caller's token, which the view says from now on.
-- KEYS: view, record of the build. ARGV: slot, token of the caller, the generation with that token in its layers.
-- Returns 1; 0 the caller builds no more.
local view = redis.call('HMGET', KEYS[1], 'token' .. ARGV[1], 'bloom_filter_current_index', 'lanes', 'deleting')
if view[1] ~= ARGV[2] or view[2] == ARGV[1] or view[4] ~= '0' then return 0 end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
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
