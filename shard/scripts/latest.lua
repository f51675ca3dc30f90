-- Note the latest view of a filter on this master. KEYS: latest. ARGV: filter, incarnation, epoch, trusted_ms.
-- Returns what is noted now, "<incarnation>:<epoch>:<trusted_ms>": of one incarnation the largest of both numbers, of
-- two the one that was trusted later, or the one that is told, where that is not known.
local incarnation, epoch, trusted = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local noted = redis.call('HGET', KEYS[1], ARGV[1])
if noted then
  local i, e, t = string.match(noted, '^(%x+):(%d+):(%d+)$')
  if i == incarnation then
    epoch, trusted = math.max(epoch, tonumber(e)), math.max(trusted, tonumber(t))
  elseif i and tonumber(t) > trusted and trusted > 0 then
    return noted
  end
end
local now = incarnation .. ':' .. string.format('%.0f:%.0f', epoch, trusted)
if now ~= noted then redis.call('HSET', KEYS[1], ARGV[1], now) end
return now
