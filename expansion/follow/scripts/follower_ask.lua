-- Ask a filter's follower to report when all that is committed now is added. KEYS: tail.
-- Returns the request's number: the field `done` will reach it; 0: no follower runs. Numbers are times (us): `done` of
-- an earlier request answers no later one, also where the node went back.
if redis.call('HEXISTS', KEYS[1], 'owner') == 0 then return 0 end
local now = redis.call('TIME')
local number = math.max(now[1] * 1000000 + now[2], tonumber(redis.call('HGET', KEYS[1], 'asked') or '0') + 1)
redis.call('HSET', KEYS[1], 'asked', string.format('%.0f', number))
return number
