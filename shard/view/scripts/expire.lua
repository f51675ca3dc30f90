-- Set or remove the time at which a filter is deleted.
-- KEYS: view. ARGV: events channel, filter, the time (wall clock, ms) or 0 for never, conditions, each between commas
-- (NX: it has no time; XX: it has one; GT, LT: the new one is later, earlier; no time counts as later than any), the
-- known format of views, the incarnation.
-- Returns 1: done; 0: the conditions do not hold, or there was nothing to remove; -1: there is no filter
-- of that incarnation; -2: its view has a later format.
local v = redis.call('HMGET', KEYS[1], 'incarnation', 'deleting', 'expire_at', 'format')
if v[4] and tonumber(v[4]) > tonumber(ARGV[5]) then return -2 end
if v[1] ~= ARGV[6] or v[2] == '1' then return -1 end
local is, new = v[3] and tonumber(v[3]), tonumber(ARGV[3])
local function wanted(word) return string.find(ARGV[4], ',' .. word .. ',', 1, true) end
if wanted('NX') and is or wanted('XX') and not is then return 0 end
if wanted('GT') and (not is or new <= is) or wanted('LT') and is and new >= is then return 0 end
if new == 0 and not is then return 0 end
-- Commands after a write run even if Redis is out of memory.
redis.call('PERSIST', KEYS[1])
if new == 0 then redis.call('HDEL', KEYS[1], 'expire_at') else redis.call('HSET', KEYS[1], 'expire_at', ARGV[3]) end
redis.call('PUBLISH', ARGV[1], 'view ' .. ARGV[2])
return 1
