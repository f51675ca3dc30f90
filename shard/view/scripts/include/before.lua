local function before(a, b) -- true if the id a is before b
  local ams, an = string.match(a, '^(%d+)-(%d+)$')
  local bms, bn = string.match(b, '^(%d+)-(%d+)$')
  if #ams ~= #bms then return #ams < #bms end
  if ams ~= bms then return ams < bms end
  if #an ~= #bn then return #an < #bn end
  return an < bn
end
