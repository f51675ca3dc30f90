-- Note that chunks have arrived, or that they are missing after all.
-- KEYS: load. ARGV: incarnation, TTL (ms), 1 arrived or 0 missing, numbers of chunks...
-- Returns how many have arrived; -1: the record belongs to another load, or the filter was published.
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'state')
if v[1] ~= ARGV[1] or v[2] ~= 'loading' then return -1 end
for i = 4, #ARGV do
  if ARGV[3] == '1' and redis.call('HSETNX', KEYS[1], 'c' .. ARGV[i], '1') == 1 then
    redis.call('HINCRBY', KEYS[1], 'arrived', 1)
  elseif ARGV[3] == '0' and redis.call('HDEL', KEYS[1], 'c' .. ARGV[i]) == 1 then
    redis.call('HINCRBY', KEYS[1], 'arrived', -1)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tonumber(redis.call('HGET', KEYS[1], 'arrived'))
