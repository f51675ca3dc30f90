-- Ask something of a running job. KEYS: view, expansion_flag, job. ARGV: phases in which it may be asked, each between
-- commas; 1 where it may be asked before the view is BUILDING, too, and of a job that only verifies; field; value; the
-- format of views that is known.
-- Returns 1 done, 0 no view, or it is being deleted, -1 no job is running, -2 the phase does not allow it, -3 the view has a later format.
local v = redis.call('HMGET', KEYS[1], 'phase', 'dropped', 'format')
local phase = v[1]
if v[3] == '3' then -- a log: its phase is what generations it has
  local log = redis.call('HMGET', KEYS[1], 'deleting', 'bloom_filter_current_index', 'generation0', 'generation1')
  local read, other = log[3 + log[2]], log[4 - log[2]]
  if log[1] == '1' then return 0 end
  local number, of_other = string.match(read, '^number=(%d+) '), string.match(other, '^number=(%d+) ')
  phase = not of_other and 'STEADY' or tonumber(of_other) > tonumber(number) and 'BUILDING' or 'SWITCHED'
end
if not phase or v[2] then return 0 end
if v[3] and tonumber(v[3]) > tonumber(ARGV[5]) then return -3 end
local mutex = redis.call('GET', KEYS[2])
local job = redis.call('HMGET', KEYS[3], 'state', 'token')
-- The record is of the job that holds the mutex: before that it would be asked of the job before.
local runs = mutex and job[1] == 'running' and job[2] and string.sub(mutex, -#job[2] - 1) == ':' .. job[2]
local two = phase == 'BUILDING' or phase == 'SWITCHED'
if string.find(ARGV[1], ',' .. phase .. ',', 1, true) or (ARGV[2] == '1' and runs and not two) then
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
  return 1
end
if two or runs then return -2 end
return -1
