-- Write pieces of a shard, if its header is still the caller's.
-- KEYS: shard. ARGV: the header; then pairs of an offset in bytes and what is written there.
-- Returns 1 written; otherwise what is there instead of the header, '' where there is no shard, an error where it is no
-- string; then nothing was written.
local header = redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if header ~= ARGV[1] then return header end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too: a lane that is not folded is never trimmed
for i = 2, #ARGV, 2 do redis.call('SETRANGE', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
