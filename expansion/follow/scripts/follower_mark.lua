-- Write or delete a mark of a filter's follower, if it still has the lease: the marks of who slept are older than those of
-- a later one. KEYS: tail, marks. ARGV: owner ('': nobody may have the lease), field, value if there is one.
-- Returns 1; 0: another owner has the lease, or it has ended.
if (redis.call('HGET', KEYS[1], 'owner') or '') ~= ARGV[1] then return 0 end
if ARGV[3] then redis.call('HSET', KEYS[2], ARGV[2], ARGV[3]) else redis.call('HDEL', KEYS[2], ARGV[2]) end
return 1
