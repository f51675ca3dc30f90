-- Write pieces of a shard, if its header is still the caller's.
-- KEYS: shard. ARGV: the header; then pairs of an offset in bytes and the bytes to write there.
-- Returns 1: written; otherwise nothing was written, and the result is what was found instead of the header: '' if
-- there is no shard, an error if the key is no string.
local header = redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if header ~= ARGV[1] then return header end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too: unfolded lanes are never trimmed
for i = 2, #ARGV, 2 do redis.call('SETRANGE', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
