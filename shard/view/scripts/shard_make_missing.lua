-- Make a shard without any key, if there is none.
-- KEYS: shard. ARGV: the header, a whole block long; the tag of its blocks; how many blocks.
-- Returns 1 made, 0 something is there.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local block = ARGV[2] .. string.rep('\0', #ARGV[1] - #ARGV[2])
redis.call('SET', KEYS[1], ARGV[1] .. string.rep(block, tonumber(ARGV[3])))
return 1
