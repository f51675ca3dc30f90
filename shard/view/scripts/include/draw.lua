-- Draw a number of at least @least that nobody has drawn before. The counter goes back with its node, and whoever drew
-- a number before that may still use it: so numbers are times (ms), too. They have 13 digits, and Lua writes 14 as they
-- are (acquire.lua).
local function draw(key, least)
  local time = redis.call('TIME')
  local number = math.max(redis.call('INCR', key), least, time[1] * 1000 + math.floor(time[2] / 1000))
  redis.call('SET', key, string.format('%.0f', number))
  return number
end
