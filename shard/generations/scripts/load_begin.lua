-- Begin to load a filter. KEYS: load, view. ARGV: dump, TTL (ms), header, pairs...
-- Returns 1: begun, and the record of another dump was dropped; 2: this dump is already being loaded; 0: there is a
-- view. Dumps of one filter have the same number; only their headers differ.
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local was = redis.call('HMGET', KEYS[1], 'header', 'state')
if was[1] == ARGV[3] and was[2] == 'loading' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 2
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'dump', ARGV[1], 'state', 'loading', 'arrived', '0', 'header', ARGV[3])
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
