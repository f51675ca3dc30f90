-- There is no filter: delete the counter of its tokens, which the search for a filter has made.
-- KEYS: view, leftover, expansion_flag, token. ARGV: mutex.
-- Returns 1: done; 0: there is a filter, or a rest of one, or the mutex is not ours.
if redis.call('GET', KEYS[3]) ~= ARGV[1] or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
redis.call('DEL', KEYS[4])
return 1
