-- Take or renew the lease of a filter's folder, and write how it fares.
-- KEYS: folder. ARGV: owner, TTL (ms), field, value, ...
-- Returns 1, or {who has it, for how many ms at most}.
local holder = redis.pcall('HGET', KEYS[1], 'owner')
if type(holder) == 'table' then return holder end -- the error, in its own words
if holder and holder ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 then -- somebody took its end away
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    left = tonumber(ARGV[2])
  end
  return {holder, left}
end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too
redis.call('HSET', KEYS[1], 'owner', ARGV[1], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
