-- Make an empty shard: its header, then blocks that hold only their tag.
-- KEYS: shard. ARGV: the header, as long as a block; a block; number of blocks; offset and length of the token in the
-- header; optionally up to where the header of a kept shard must be equal.
-- Returns -1: made; -2: something else is there; -3: a shard was kept, and has this header; or the number of the
-- shard's token, which is this one or a later one. What an earlier token has made is replaced, or kept.
local header, piece, at, length = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local old = redis.call('GETRANGE', KEYS[1], 0, #header - 1)
if old ~= '' then
  if string.sub(old, 1, at) ~= string.sub(header, 1, at) then return -2 end
  local earlier = false
  for i = at + 1, at + length do -- by bytes: string comparison depends on the locale
    local has, new = string.byte(old, i) or 0, string.byte(header, i)
    earlier = has < new
    if has ~= new then break end
  end
  if not earlier then
    local number = 0
    for i = at + 1, at + 8 do number = number * 256 + (string.byte(old, i) or 0) end
    return number
  end
  local same, from = tonumber(ARGV[6] or '0'), at + length + 1
  if same >= from and string.sub(old, from, same) == string.sub(header, from, same) and
    redis.call('STRLEN', KEYS[1]) == #header + #piece * tonumber(ARGV[3]) then
    redis.call('SETRANGE', KEYS[1], 0, header)
    return -3
  end
  redis.call('UNLINK', KEYS[1])
end
local first, last = #header, #header + #piece * tonumber(ARGV[3])
while #piece < 16384 and 2 * #piece <= last - first do piece = piece .. piece end
while last > first do -- the end first, so that the string has its length at once
  last = math.max(first, last - #piece)
  redis.call('SETRANGE', KEYS[1], last, piece)
end
redis.call('SETRANGE', KEYS[1], 0, header)
return -1
