-- Name a filter's incarnation in a registry, before it is published.
-- KEYS: registry; if that registry has the list of names beside it, also P:filters.
-- ARGV: filter, incarnation, name in the list, 'new' | 'later' | 'keep', 'alone' (the only node), 'list' (of a cluster:
-- it has the names of all filters, and need not be complete) or 'one'.
-- 'new' changes nothing and returns 0 if another incarnation is named, -1 if the registry is not complete. 'later'
-- replaces an earlier one, and returns -2 if a later one is named. 'keep' only fills an empty place.
-- Returns 1: it is named.
local was = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[4] == 'new' then
  if was and was ~= ARGV[2] then return 0 end
  if ARGV[5] ~= 'list' and redis.call('HEXISTS', KEYS[1], '{complete}') == 0 then
    -- Filters that were made before there was a registry are in the list. What lies on this node alone is lost
    -- together, unless Redis evicts single keys, or did, under another policy.
    if ARGV[5] ~= 'alone' or redis.call('EXISTS', KEYS[2]) == 1 then return -1 end
    local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:(%a+)')
    if policy ~= 'noeviction' and policy ~= 'volatile' then return -1 end
    if not string.find(redis.call('INFO', 'stats'), 'evicted_keys:0%c') then return -1 end
    redis.call('HSET', KEYS[1], '{complete}', 1)
  end
end
if ARGV[4] == 'later' and was and was ~= 'several' and was > ARGV[2] then return -2 end
if not was or ARGV[4] ~= 'keep' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
if KEYS[2] then redis.call('SADD', KEYS[2], ARGV[3]) end
return 1
