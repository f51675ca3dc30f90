local function lane_is(lanes, n, lane) -- true if lane n of the view's @lanes is that "<number>:<era>"
  local i = 0
  for text in string.gmatch(lanes or '', '[^,]+') do
    if i == tonumber(n) then return text == lane end
    i = i + 1
  end
  return false
end
