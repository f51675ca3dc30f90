-- Name what a scan has found on a master. KEYS: registry. ARGV: pairs of filter and incarnation. What is named stays, but for a
-- filter of which there are several incarnations: that one has to be looked for whatever it is called.
for i = 1, #ARGV, 2 do
  local was = redis.call('HGET', KEYS[1], ARGV[i])
  if was and was ~= ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], 'several')
  elseif not was then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 1
