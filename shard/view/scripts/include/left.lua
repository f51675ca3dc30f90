-- Note that a writer's registration has ended: the last one of each writer, of about 32 writers.
local function note_left(key, writer, number)
  local id = string.sub(writer, 8)
  local left = redis.call('HGET', key, 'left')
  local others = left and string.gsub(' ' .. left, ' ' .. id .. ':%d+', '') or ''
  left = string.sub(id .. ':' .. number .. others .. ' ', 1, 1600)
  redis.call('HSET', key, 'left', string.match(left, '^(.*) '))
end
