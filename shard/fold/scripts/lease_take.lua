-- Take or renew the lease of a filter's folder, and store how folding fares.
-- KEYS: folder. ARGV: owner, TTL (ms), field, value, ...
-- Returns 1, or {the holder, for how many ms at most}.
local holder = redis.pcall('HGET', KEYS[1], 'owner')
if type(holder) == 'table' then return holder end -- return the error as it is
if holder and holder ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 or left > 3600000 then -- its TTL was removed, or the server's clock went back; no lease is longer
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    left = tonumber(ARGV[2])
  end
  return {holder, left}
end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('HSET', KEYS[1], 'owner', ARGV[1], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
