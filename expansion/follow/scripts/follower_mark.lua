-- Write or delete a mark of a filter's follower, if the lease is still that of its attempt: marks of who slept, or that
-- are executed late, are older than those of a later attempt. KEYS: tail, marks. ARGV: attempt ('': nobody may have the
-- lease), field, value if there is one. Returns 1; 0: another attempt has the lease, or it has ended.
if (redis.call('HGET', KEYS[1], 'attempt') or '') ~= ARGV[1] then return 0 end
if ARGV[3] then redis.call('HSET', KEYS[2], ARGV[2], ARGV[3]) else redis.call('HDEL', KEYS[2], ARGV[2]) end
return 1
