local function layers_of(key, slot) -- how many layers the view has of the generation in that slot
  local _, more = string.gsub(redis.call('HGET', key, 'generation' .. slot) or '', ';', '')
  return 1 + more
end
