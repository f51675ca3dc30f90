-- Ask a filter's follower to report when all that is committed now is added. KEYS: tail.
-- Returns the request's number: the field `done` will reach it; 0: no follower runs.
if redis.call('HEXISTS', KEYS[1], 'owner') == 0 then return 0 end
return redis.call('HINCRBY', KEYS[1], 'asked', 1)
