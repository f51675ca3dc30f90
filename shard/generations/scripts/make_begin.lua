-- Record what will be made, before any of it is.
-- KEYS: view, leftover. ARGV: fields and values of a view.
-- Returns 1: recorded; 0: there is a view; -1: there is a record already; -2: the view's key is no hash; -3: the
-- record's key is no hash.
local function kind(i) return redis.call('TYPE', KEYS[i]).ok end
if kind(1) ~= 'none' then return kind(1) == 'hash' and 0 or -2 end
if kind(2) ~= 'none' then return kind(2) == 'hash' and -1 or -3 end
redis.call('HSET', KEYS[2], unpack(ARGV))
return 1
