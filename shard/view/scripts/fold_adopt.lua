-- Enter a token into the header of a shard: whoever wrote under an older one writes no more.
-- KEYS: shard. ARGV: the header with the token; where the token lies, how long it is (its number, big-endian, in 8 bytes,
-- then its random part), and where the checksum begins. What is before, and between token and checksum, must be there.
-- Returns -1 entered, -2 there is no such shard, -3 it is something else; otherwise the number of the token that it has,
-- which is later than the caller's.
local header, at, length, sum = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local old = redis.call('GETRANGE', KEYS[1], 0, #header - 1)
if old == '' then return -2 end
if old == header then return -1 end
local function same(first, last) return string.sub(old, first, last) == string.sub(header, first, last) end
if not (same(1, at) and same(at + length + 1, sum)) then return -3 end
for i = at + 1, at + length do -- by bytes: how strings compare depends on the locale
  local new, has = string.byte(header, i), string.byte(old, i)
  if new > has then break end
  if new < has then
    local number = 0
    for k = at + 1, at + 8 do number = number * 256 + string.byte(old, k) end
    return number
  end
end
redis.call('PERSIST', KEYS[1]) -- what follows a write runs at maxmemory, too; it allocates nothing
redis.call('SETRANGE', KEYS[1], 0, header)
return -1
