-- Make a registry complete once all keys were searched. Names that were found are gone if the registry was lost
-- meanwhile. So a registry gets a number before the search begins; one that was made behind a loss has another, or
-- none.
-- KEYS: registry. ARGV: the number; 'begin' or 'end'.
-- 'begin': returns the registry's number; 0: it is complete. 'end': returns 1 if it is complete, 0 if it was lost.
if redis.call('HEXISTS', KEYS[1], '{complete}') == 1 then return ARGV[2] == 'begin' and 0 or 1 end
if ARGV[2] == 'begin' then redis.call('HSETNX', KEYS[1], '{search}', ARGV[1]) end
local number = redis.call('HGET', KEYS[1], '{search}')
if ARGV[2] == 'begin' then return tonumber(number) end
if number ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], '{complete}', 1)
redis.call('HDEL', KEYS[1], '{search}')
return 1
