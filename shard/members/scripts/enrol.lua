-- Enter a coordinator into the list of members. KEYS: the list. ARGV: id, TTL (ms), the most that the list may hold.
-- A full list drops any other members: those that are alive come back with their next heartbeat. Returns 1.
redis.call('PERSIST', KEYS[1])
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then
  local all = redis.call('SMEMBERS', KEYS[1])
  local over = #all - tonumber(ARGV[3])
  for _, id in ipairs(all) do
    if over > 0 and id ~= ARGV[1] then over = over - redis.call('SREM', KEYS[1], id) end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
