-- Make a request to a running job. KEYS: view, expansion_flag, job. ARGV: the phases that allow it, with commas around;
-- 1: also before the view is BUILDING, and for a job that only verifies; field; value; the format of views that the
-- caller knows; the id of the job that the request is meant for.
-- Returns 1: done; 0: there is no view, or it is being deleted; -1: no job is running; -2: the phase does not allow it;
-- -3: the view has a later format; -4: a rollback to a generation that was never built completely;
-- -5: that job has ended, and the record is another one's.
local v = redis.call('HMGET', KEYS[1], 'format', 'deleting', 'bloom_filter_current_index', 'generation0', 'generation1')
local format = tonumber(v[1] or 0)
if format > tonumber(ARGV[5]) then return -3 end
if format < tonumber(ARGV[5]) or v[2] == '1' then return 0 end
local read, other = v[4 + v[3]], v[5 - v[3]]
local number, of_other = string.match(read, '^number=(%d+) '), string.match(other, '^number=(%d+) ')
local phase = not of_other and 'STEADY' or tonumber(of_other) > tonumber(number) and 'BUILDING' or 'SWITCHED'
local mutex = redis.call('GET', KEYS[2])
local job = redis.call('HMGET', KEYS[3], 'state', 'token', 'id')
-- The record must be that of the job that holds the mutex: otherwise the request would go to the previous job.
local runs = mutex and job[1] == 'running' and job[2] and string.sub(mutex, -#job[2] - 1) == ':' .. job[2]
local two = phase == 'BUILDING' or phase == 'SWITCHED'
if (two or runs) and (job[3] or '0') ~= ARGV[6] then return -5 end
if string.find(ARGV[1], ',' .. phase .. ',', 1, true) or (ARGV[2] == '1' and runs and not two) then
  if ARGV[3] == 'rollback' and string.find(other, ' built=0 ', 1, true) then return -4 end
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
  return 1
end
if two or runs then return -2 end
return -1
