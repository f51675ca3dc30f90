-- Make the generation that was built the current one. An earlier call must have made the view say that the cutover is
-- near: from then on writers forget nothing that a lane may lose before the build has it (roll_forget()). Between the
-- calls the caller reads the lanes and writes once more.
-- KEYS: view, record of the build. ARGV: incarnation, slot, the caller's token, number of the generation, `lanes` and
-- `eras` of the view when the build began, number of shards, 1 if the generation has every key that was acknowledged
-- before, number of keys, 1 if the view said `near` before the caller's last read of the lanes, the replication id of
-- this server when the build began; then for each lane "<number> <position> <layers>".
-- Returns 1: it is current; 2: the view says `near`; 0: the caller is no longer the builder; -1: lanes or eras have
-- changed since the build began; -2: this server has another id, which is none of the eras, so its view may be older
-- than it was then.
-- If the current generation is degraded and the new one is not, there is no way back: the current one is then no longer
-- `built`. A cutover is a history of the view, whose name is the token's random part: a view from before it is known.
-- include history.lua
local view = redis.call('HMGET', KEYS[1], 'incarnation', 'deleting', 'bloom_filter_current_index',
  'generation' .. ARGV[2], 'token' .. ARGV[2], 'lanes', 'eras', 'degraded', 'near')
if view[1] ~= ARGV[1] or view[2] ~= '0' or string.match(view[4], '^number=(%d+) ') ~= ARGV[4] then return 0 end
if view[3] == ARGV[2] then return 1 end -- the former reply was lost
if view[5] ~= ARGV[3] then return 0 end
if view[6] ~= ARGV[5] or view[7] ~= ARGV[6] then return -1 end
local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
id = string.sub(id or '', 1, 16)
if id ~= ARGV[11] and not string.find(view[7], id, 1, true) then return -2 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
if ARGV[10] ~= '1' or view[9] ~= ARGV[4] then -- `near` was taken back: the lane was too long (fold_store.lua)
  redis.call('HSET', KEYS[1], 'near', ARGV[4])
  return 2
end
redis.call('HDEL', KEYS[1], 'near')
redis.call('HSET', KEYS[1], 'keys' .. ARGV[2], ARGV[4] .. ' ' .. ARGV[9])
for i = 12, #ARGV do
  redis.call('HSET', KEYS[1], 'folded' .. ARGV[2] .. '.' .. (i - 12), ARGV[i])
  redis.call('HDEL', KEYS[1], 'hold.' .. (i - 12))
end
if ARGV[8] == '1' and view[8] == '1' then
  local old = redis.call('HGET', KEYS[1], 'generation' .. view[3])
  redis.call('HSET', KEYS[1], 'degraded', 0, 'generation' .. view[3], (string.gsub(old, ' built=1 ', ' built=0 ', 1)))
end
note_history(KEYS[1], string.match(ARGV[3], '%x+$'))
redis.call('HSET', KEYS[1], 'generation' .. ARGV[2], (string.gsub(view[4], ' built=0 ', ' built=1 ', 1)),
  'bloom_filter_current_index', ARGV[2], 'bloom_filter_size', ARGV[7])
if ARGV[8] == '1' then -- as in make_publish.lua
  local now = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'healthy_ms', string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)))
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('DEL', KEYS[2])
return 1
