local function has_mutex(key, mutex) -- true if the caller has the mutex of the filter's job; '': nobody has it
  return (redis.call('GET', key) or '') == mutex
end
