-- Write down what is going to be made, before any of it is.
-- KEYS: view, leftover. ARGV: fields and values, as a view has them.
-- Returns 1 written, 0 there is a view, -1 there is a record already, -2 the view is no hash, -3 the record is none.
local function kind(i) return redis.call('TYPE', KEYS[i]).ok end
if kind(1) ~= 'none' then return kind(1) == 'hash' and 0 or -2 end
if kind(2) ~= 'none' then return kind(2) == 'hash' and -1 or -3 end
redis.call('HSET', KEYS[2], unpack(ARGV))
return 1
