/**
 * Takes all guards of a request or none. A minute's counter is the list of the
 * times, in microseconds, at which requests were accepted; a day's is a number.
 * What nobody asks for expires: a list when it has been empty for minutes, a
 * number when its day is over everywhere.
 */
import { script } from "./RedisClient.ts"

/**
 * Arguments: the time that all processes agree on, the day's number, the milliseconds left of it, and for each guard
 * window, name and limit. Answers with which guard refuses, from 1 (or 0), and for each guard what remains and the
 * milliseconds until its reset.
 */
export const take = script(`
local base, call, minute = KEYS[1], redis.call, 60000000
local now, day, untilMidnight = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local guards, refusing = {}, 0

local function millis(micros) return math.ceil(micros / 1000) end

for at = 4, #ARGV, 3 do
  local one = { limit = tonumber(ARGV[at + 2]) }
  if ARGV[at] == 'minute' then
    one.list = base .. 'minute:' .. ARGV[at + 1]
    one.last = tonumber(call('LINDEX', one.list, -1))
    if one.last and one.last <= now - minute then
      call('DEL', one.list)
      one.last = nil
    elseif one.last then
      while tonumber(call('LINDEX', one.list, 0)) <= now - minute do call('LPOP', one.list) end
    end
    one.used = one.last and call('LLEN', one.list) or 0
    one.resetMs = millis(math.max(one.last or now, now) + minute - now)
    if one.used >= one.limit then
      local frees = one.limit > 0 and tonumber(call('LINDEX', one.list, -one.limit)) or now
      one.resetMs = millis(frees + minute - now)
    end
  else
    one.number = base .. 'day:' .. day .. ':' .. ARGV[at + 1]
    one.used = tonumber(call('GET', one.number)) or 0
    one.resetMs = untilMidnight
  end
  guards[#guards + 1] = one
  if refusing == 0 and one.used >= one.limit then refusing = #guards end
end

local answer = { refusing }
for _, one in ipairs(guards) do
  local counted = 0
  if refusing == 0 then
    counted = 1
    if one.list then
      call('RPUSH', one.list, math.max(one.last or now, now))
      call('PEXPIRE', one.list, 300000)
    else
      call('INCR', one.number)
      call('PEXPIRE', one.number, 172800000)
    end
  elseif one.list and one.used < one.limit then
    one.resetMs = one.last and millis(one.last + minute - now) or 0
  end
  answer[#answer + 1] = math.max(0, one.limit - one.used - counted)
  answer[#answer + 1] = one.resetMs
end
return answer
`)
