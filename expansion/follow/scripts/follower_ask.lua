-- Ask a filter's tail to say when all that is committed now is added. KEYS: tail.
-- Returns the request's number: the tail's field `done` reaches it; 0: there is no tail.
if redis.call('HEXISTS', KEYS[1], 'owner') == 0 then return 0 end
return redis.call('HINCRBY', KEYS[1], 'asked', 1)
