-- Write a mark at the head of this master's list, with the lineage under which it is written. KEYS: marks. ARGV: the mark up to its
-- lineage (it begins with its time in ms), that time, ms that the newest of this lineage must be apart from it, marks that are kept.
-- Returns 1 written, 0 the newest one is young enough, -1 this is no master.
local info = redis.call('INFO', 'replication')
local lineage = string.match(info, 'master_replid:(%x+)')
if string.match(info, 'role:(%a+)') ~= 'master' or not lineage then return -1 end
local newest = redis.call('LRANGE', KEYS[1], 0, 0)[1]
if newest then
  local ms, whose = string.match(newest, '^(%d+):.*:(%x+)$')
  if whose == lineage and math.abs(tonumber(ARGV[2]) - tonumber(ms)) < tonumber(ARGV[3]) then return 0 end
end
redis.call('LPUSH', KEYS[1], ARGV[1] .. ':' .. lineage)
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[4]) - 1)
return 1
