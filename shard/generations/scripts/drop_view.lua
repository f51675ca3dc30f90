-- Turn the view, whose lanes are all closed, into the record of what is left over. For a while it is said which
-- incarnation was deleted last: who has had the filter, and finds no view, must tell that from a loss.
-- KEYS: view, leftover, deleted, other keys of the filter. ARGV: incarnation, for how long (ms) it is said.
-- Returns 1: done, now or before; 0: there is another view; -1: the view is not being deleted; -2: there is a record of
-- something else.
local record = redis.call('HGET', KEYS[2], 'incarnation')
local has = redis.call('HMGET', KEYS[1], 'incarnation', 'deleting')
if has[1] ~= ARGV[1] then return (record == ARGV[1] or not has[1]) and 1 or 0 end
if has[2] ~= '1' then return -1 end
if record then return -2 end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too
redis.call('RENAME', KEYS[1], KEYS[2])
local said = redis.pcall('GET', KEYS[3])
if type(said) ~= 'string' or said < ARGV[1] then redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2]) end
redis.call('DEL', unpack(KEYS, 4))
return 1
