-- The generation in @slot, which is not current, cannot become current again. Where it has been current, and is later
-- than the current one, its build begins again, and whoever slept since still reads its shards block by block. So it
-- gets a number that was never used, and the shards of its former number will be deleted. @may: it may have been, and
-- so may some numbers that the view does not know of.
local function unbuild(key, forgotten, slot, may)
  local view = redis.call('HMGET', key, 'incarnation', 'last_generation', 'generation' .. slot,
    'generation' .. 1 - slot)
  local number, read = string.match(view[3] or '', '^number=(%d+) '), string.match(view[4], '^number=(%d+) ')
  if not number then return end
  local text, step = string.gsub(view[3], ' built=1 ', ' built=0 ', 1), may and 1000 or 2
  if tonumber(number) > tonumber(read) and (may or text ~= view[3]) then
    redis.call('HSET', forgotten, view[1] .. ' ' .. number, view[3])
    text = string.gsub(text, '^number=%d+', string.format('number=%.0f', number + step), 1)
    redis.call('HSET', key, 'last_generation', string.format('%.0f', view[2] + step), 'token' .. slot,
      '0 0000000000000000')
    for lane = 0, 15 do redis.call('HDEL', key, 'folded' .. slot .. '.' .. lane) end
    redis.call('HDEL', key, 'filled' .. slot)
  end
  redis.call('HSET', key, 'generation' .. slot, text)
end
