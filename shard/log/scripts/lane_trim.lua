-- Remove a lane's entries before one that it still has, by whole nodes of the stream. XTRIM runs at maxmemory.
-- KEYS: lane. ARGV: id of that entry, its first bytes, how many entries to remove at most, the lane's era; without
-- ARGV: remove nothing.
-- Returns how many were removed, or -1 if the lane does not have that entry, or its node is in another era: a roll call
-- may have taken the first entry as a position; and the lane's bytes in memory, 0 if it is missing.
local gone = 0
local era = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
if ARGV[1] and string.sub(era, 1, 16) ~= ARGV[4] then
  gone = -1
elseif ARGV[1] then
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
