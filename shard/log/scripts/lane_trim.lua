-- Remove a lane's entries before one that it still has, by whole nodes of the stream.
-- KEYS: lane. ARGV: that entry's id, how its bytes begin, how many may go at most; none: remove nothing.
-- Returns how many went, or -1 where the lane has not that entry; and the lane's bytes in memory, 0 where it is missing.
-- XTRIM runs at maxmemory.
local gone = 0
if ARGV[1] then
  local range = redis.pcall('XRANGE', KEYS[1], ARGV[1], ARGV[1])
  if range.err then return range end
  local entry = range[1]
  if entry and string.sub(entry[2][2], 1, #ARGV[2]) == ARGV[2] then
    gone = redis.call('XTRIM', KEYS[1], 'MINID', '~', ARGV[1], 'LIMIT', ARGV[3])
  else
    gone = -1
  end
end
return {gone, redis.call('MEMORY', 'USAGE', KEYS[1]) or 0}
