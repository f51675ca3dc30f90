-- Append a mark to a lane, unless its node is in another era: there an entry that was acknowledged before may be
-- missing, and appended again behind the mark.
-- KEYS: lane. ARGV: the mark, the lane's era.
-- Returns the entry's id; nil: the lane is missing; 0: the node is in another era.
local era = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
if string.sub(era, 1, 16) ~= ARGV[2] then return 0 end
return redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', '*', 'e', ARGV[1])
