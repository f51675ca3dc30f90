-- Enter a token into the header of a shard. A writer with an older token can then write no more.
-- KEYS: shard. ARGV: the header with the token; the offset and length of the token in it (its number, big-endian, in 8
-- bytes, then its random part); the offset of the checksum; the least token number that the shard may have. The header
-- must be equal before the token, and between token and checksum.
-- Returns -1: entered; the number of the shard's token, if that is later than the caller's; or what was found instead
-- of its header: '' if there is no shard, an error if the key is no string.
local header, at, length, sum = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local old = redis.pcall('GETRANGE', KEYS[1], 0, #header - 1)
if old == header then return -1 end
if type(old) == 'table' then return old end
local function same(first, last) return string.sub(old, first, last) == string.sub(header, first, last) end
if not (same(1, at) and same(at + length + 1, sum)) then return old end
local number = 0
for k = at + 1, at + 8 do number = number * 256 + string.byte(old, k) end
if number < tonumber(ARGV[5]) then return old end
for i = at + 1, at + length do -- by bytes: string comparison depends on the locale
  local new, has = string.byte(header, i), string.byte(old, i)
  if new > has then break end
  if new < has then return number end
end
redis.call('PERSIST', KEYS[1]) -- commands after a write run at maxmemory, too; this one allocates nothing
redis.call('SETRANGE', KEYS[1], 0, header)
return -1
