-- Name what a scan has found on a master. KEYS: registry. ARGV: pairs of filter and incarnation.
-- What is named stays, except for a filter with several incarnations: that one must be searched for under any of them.
for i = 1, #ARGV, 2 do
  local was = redis.call('HGET', KEYS[1], ARGV[i])
  if was and was ~= ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], 'several')
  elseif not was then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 1
