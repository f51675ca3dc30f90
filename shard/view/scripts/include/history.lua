-- Note that the view has the history @id: the last ones first, 40 of them.
local function note_history(key, id)
  local was = redis.call('HGET', key, 'history')
  if was and string.find(was, id, 1, true) then return end
  redis.call('HSET', key, 'history', string.sub(was and id .. ' ' .. was or id, 1, 40 * 17 - 1))
end
