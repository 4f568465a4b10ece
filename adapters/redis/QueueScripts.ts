/**
 * The job queue's steps, each a script that Redis runs whole or not at all.
 * Under each kind lie
 *
 *     <kind>:job:<subject>   what is known of a job
 *     <kind>:jobs:<group>    the group's jobs that nobody holds, by due time
 *     <kind>:leased          jobs that somebody holds, by expiry
 *     <kind>:group:<group>   its leases and until when the last may hold, its turn, the line it stands in, its throttle
 *     <kind>:line:<leases>   groups with a due job and so many leases, by turn; `lines` names these lines
 *     <kind>:later           groups without a due job, by when one will be
 *     <kind>:throttled       throttled groups, by when that lapses
 *
 * and of all kinds together
 *
 *     number                 the last that was given out: turns and news are in this order
 *     news                   of each kind, the number of the last news; the channel on which they are told has its name
 *     waiting                kinds whose next news somebody waits for
 *     epoch                  the name of all this
 *
 * so that a claim finds the next group without a look at jobs that are not due
 * or groups at their cap. A group has a turn exactly as long as it has due jobs.
 * Each number of `number` is used once. Nothing here asks for the time.
 */
import { leaseMax } from "../../core/ports/JobQueue.ts"
import { script } from "./RedisClient.ts"

const library = `
local base, call = KEYS[1], redis.call
local number, freed, rung, touched, order, lines = nil, {}, {}, {}, {}, {}

local function nextNumber(now)
  number = (number or tonumber(call('GET', base .. 'number')) or math.floor(now) * 1000) + 1
  return number
end

-- Whether leases may be nobody's any more: those of jobs that the server has lost, which tell no group when they run out.
-- A version of before does not write until when it holds, so those who hold are counted then.
local function mayBeGone(own, leases, heldUntil, now)
  if not leases or leases == 0 or not heldUntil or heldUntil > now then return false end
  local first = tonumber(call('ZRANGE', own .. ':leased', 0, 0, 'WITHSCORES')[2])
  return not first or first > now
end

local function countHeld(own, group)
  local count = 0
  for _, subject in ipairs(call('ZRANGE', own .. ':leased', 0, -1)) do
    if call('HGET', own .. ':job:' .. subject, 'group') == group then count = count + 1 end
  end
  return count
end

-- Puts a group where its jobs and leases say. Returns the line it stands in, or '', and where it stood.
-- heldUntil: it had its turn, and a job of it is held until then. A new turn is the last.
-- foundIn: the line that a claim found it in. If it knows nothing of that, it leaves it, or the claim would find it for ever.
local function settle(kind, group, now, moreLeases, heldUntil, firstDueAt, foundIn)
  local own = base .. kind
  local key = own .. ':group:' .. group
  local known = call('HMGET', key, 'leases', 'turn', 'line', 'cap', 'until', 'heldUntil')
  local counted, lastUntil = tonumber(known[1]) or 0, tonumber(known[6])
  local leases = mayBeGone(own, counted, lastUntil, now) and countHeld(own, group) or math.max(0, counted + moreLeases)
  local turn, stood, cap = tonumber(known[2]), known[3] or '', tonumber(known[4])
  if cap and tonumber(known[5]) <= now then cap = nil end -- a claim will remove it
  if heldUntil then lastUntil = math.max(heldUntil, lastUntil or 0) end
  local dueAt = tonumber(firstDueAt or call('ZRANGE', own .. ':jobs:' .. group, 0, 0, 'WITHSCORES')[2])
  local isDue = dueAt ~= nil and dueAt <= now
  local stands = isDue and (cap == nil or leases < cap) and string.format('%d', leases) or ''
  if foundIn and foundIn ~= stood then call('ZREM', own .. ':line:' .. foundIn, group) end
  if stood ~= '' and stood ~= stands then call('ZREM', own .. ':line:' .. stood, group) end
  if isDue then
    local isNew = heldUntil or not turn
    if not turn then call('ZREM', own .. ':later', group) end
    if isNew then turn = nextNumber(now) end
    if stands ~= '' and (isNew or stood ~= stands) then
      call('ZADD', own .. ':line:' .. stands, turn, group)
      if stood ~= stands and not (lines[kind] and lines[kind][stands]) then
        call('SADD', own .. ':lines', stands)
        if lines[kind] then lines[kind][stands] = tonumber(stands) end
      end
    end
    call('HSET', key, 'leases', leases, 'heldUntil', lastUntil or '', 'turn', turn, 'line', stands)
    return stands, stood
  end
  if dueAt ~= nil then
    call('ZADD', own .. ':later', dueAt, group)
    if call('ZRANGE', own .. ':later', 0, 0)[1] == group then rung[kind] = true end
  elseif not turn then
    call('ZREM', own .. ':later', group)
  end
  if dueAt == nil and leases == 0 and cap == nil then
    call('DEL', key)
  else
    call('HSET', key, 'leases', leases, 'heldUntil', lastUntil or '', 'turn', '', 'line', '')
  end
  return '', stood
end

-- Notes that a group is to be settled; frees: there may be a job or a place in it that a claim has not seen.
local function touch(kind, group, now, moreLeases, frees)
  local name = kind .. ':' .. group
  local one = touched[name]
  if not one then
    one = { kind = kind, group = group, now = now, leases = 0 }
    touched[name] = one
    order[#order + 1] = one
  end
  one.now = math.max(one.now, now)
  one.leases = one.leases + moreLeases
  one.frees = one.frees or frees
end

-- A lease's job waits again, as of this time.
local function runOut(kind, subject, group, at, now)
  call('ZREM', base .. kind .. ':leased', subject)
  call('ZADD', base .. kind .. ':jobs:' .. group, at, subject)
  touch(kind, group, now, -1, true)
end

local function settleTouched()
  for _, one in ipairs(order) do
    local stands, stood = settle(one.kind, one.group, one.now, one.leases)
    if stands ~= '' and (one.frees or stood == '') then freed[one.kind] = true end
  end
end

-- Wakes who waits for a kind in which something became free, or will be earlier than it would have been.
local function finish(now)
  for kind in pairs(freed) do
    call('HSET', base .. 'news', kind, nextNumber(now))
    rung[kind] = true
  end
  if number then call('SET', base .. 'number', number) end
  for kind in pairs(rung) do -- where our user may not tell them, all else is done, and who waits looks by himself
    if call('HDEL', base .. 'waiting', kind) == 1 then redis.pcall('PUBLISH', base .. 'news', kind) end
  end
end
`

/** How many arguments a step has. */
export const stepLength = 7

/**
 * Does steps in their order: [what, now, kind, subject, ...]. An answer for each, `lost` if another has the lease, and of
 * `extend` `emptied` if all that there was when it was claimed is lost, and nobody has claimed it since.
 *
 * offer: group, realm, dueAt. complete: token. release: token, delay. extend: token, expiresAt. hold: token, expiresAt,
 * claims. throttle (its subject is the group): inFlightMax or nothing, until.
 */
export const steps = script(`${library}
local function drop(kind, subject, group, now)
  if call('ZREM', base .. kind .. ':leased', subject) == 1 then
    touch(kind, group, now, -1, true)
  else
    local hasRunOut = call('ZREM', base .. kind .. ':jobs:' .. group, subject) == 1
    touch(kind, group, now, hasRunOut and 0 or -1, not hasRunOut)
  end
end

local function put(kind, subject, group, dueAt, now)
  call('ZADD', base .. kind .. ':jobs:' .. group, dueAt, subject)
  touch(kind, group, now, 0, true)
end

-- What a server has lost of a job alone is put back when the job is offered again, as the sweep does with what is overdue:
-- the job among its group's, with the lease that it had, and the group in its line, or among the later ones, without leases that are gone.
local function restore(kind, subject, group, dueAt, now, leases)
  local own = base .. kind
  if not call('ZSCORE', own .. ':jobs:' .. group, subject) then
    call('ZADD', own .. ':jobs:' .. group, dueAt, subject)
    return touch(kind, group, now, -leases, true)
  end
  local key = own .. ':group:' .. group
  local known = call('HMGET', key, 'turn', 'line', 'leases', 'heldUntil')
  if mayBeGone(own, tonumber(known[3]), tonumber(known[4]), now) then touch(kind, group, now, 0, true) end
  local line, isThere = known[2] or '', nil
  if line ~= '' then
    isThere = call('ZSCORE', own .. ':line:' .. line, group) and call('SISMEMBER', own .. ':lines', line) == 1
  else
    isThere = tonumber(known[1]) or call('ZSCORE', own .. ':later', group)
  end
  if isThere then return end
  call('HSET', key, 'turn', '', 'line', '')
  touch(kind, group, now, 0, true)
end

local does = {}

function does.offer(now, kind, subject, group, realm, dueAt)
  local key = base .. kind .. ':job:' .. subject
  local known = call('HMGET', key, 'dueAt', 'token', 'besideDueAt', 'group')
  if not known[1] then
    call('HSET', key, 'group', group, 'realm', realm, 'dueAt', dueAt, 'token', '', 'claims', 0, 'besideDueAt', '')
    put(kind, subject, group, dueAt, now)
  elseif known[2] ~= '' then
    local expiresAt = call('ZSCORE', base .. kind .. ':leased', subject)
    if not expiresAt then
      restore(kind, subject, known[4], now, now, 1)
    elseif tonumber(expiresAt) > now + ${leaseMax} then
      runOut(kind, subject, known[4], now, now)
    end
    if known[3] == '' or tonumber(dueAt) < tonumber(known[3]) then
      call('HSET', key, 'besideDueAt', dueAt, 'besideGroup', group, 'besideRealm', realm)
    end
  elseif tonumber(dueAt) < tonumber(known[1]) then
    call('HSET', key, 'dueAt', dueAt)
    put(kind, subject, known[4], dueAt, now)
  else
    restore(kind, subject, known[4], known[1], now, 0)
  end
  return ''
end

function does.complete(now, kind, subject, token)
  local key = base .. kind .. ':job:' .. subject
  local known = call('HMGET', key, 'token', 'group', 'besideDueAt', 'besideGroup', 'besideRealm')
  if known[1] ~= token then return 'lost' end
  drop(kind, subject, known[2], now)
  call('DEL', key)
  if known[3] ~= '' then does.offer(now, kind, subject, known[4], known[5], known[3]) end
  return ''
end

function does.release(now, kind, subject, token, delay)
  local key = base .. kind .. ':job:' .. subject
  local known = call('HMGET', key, 'token', 'group', 'besideDueAt', 'dueAt', 'claims')
  if known[1] ~= token then return 'lost' end
  drop(kind, subject, known[2], now)
  local dueAt = known[4]
  if tonumber(delay) > 0 then
    dueAt = math.min(tonumber(known[3]) or math.huge, math.max(tonumber(dueAt), now + delay))
  end
  call('HSET', key, 'dueAt', dueAt, 'token', '', 'claims', known[5] - 1)
  put(kind, subject, known[2], dueAt, now)
  return ''
end

function does.extend(now, kind, subject, token, expiresAt)
  local known = call('HMGET', base .. kind .. ':job:' .. subject, 'token', 'group')
  if (known[1] or '') == '' and string.match(token, '@(.*)') ~= (call('GET', base .. 'epoch') or '') then return 'emptied' end
  if known[1] ~= token then return 'lost' end
  if call('ZREM', base .. kind .. ':jobs:' .. known[2], subject) == 1 then -- it ran out, and nobody has claimed it since
    touch(kind, known[2], now, 1, false)
    rung[kind] = true
  end
  call('ZADD', base .. kind .. ':leased', expiresAt, subject)
  local group = base .. kind .. ':group:' .. known[2]
  call('HSET', group, 'heldUntil', math.max(tonumber(expiresAt), tonumber(call('HGET', group, 'heldUntil')) or 0))
  return ''
end

-- Takes a job that was offered just before, for who has worked on it since before all was lost.
function does.hold(now, kind, subject, token, expiresAt, claims)
  local key = base .. kind .. ':job:' .. subject
  if call('HGET', key, 'token') ~= '' then return 'lost' end
  call('HSET', key, 'token', token, 'claims', claims, 'besideDueAt', '')
  return does.extend(now, kind, subject, token, expiresAt)
end

function does.throttle(now, kind, group, inFlightMax, lapsesAt)
  local key = base .. kind .. ':group:' .. group
  if inFlightMax == '' then
    call('HDEL', key, 'cap', 'until')
    call('ZREM', base .. kind .. ':throttled', group)
  else
    call('HSET', key, 'cap', inFlightMax, 'until', lapsesAt)
    call('ZADD', base .. kind .. ':throttled', lapsesAt, group)
  end
  touch(kind, group, now, 0, false)
  return ''
end

local answers, now = {}, 0
for at = 1, #ARGV, ${stepLength} do
  now = tonumber(ARGV[at + 1])
  answers[#answers + 1] = does[ARGV[at]](now, unpack(ARGV, at + 2, at + ${stepLength - 1}))
end
settleTouched()
finish(now)
return answers
`)

/** Strings that `claim` answers with for each lease. */
export const leaseLength = 7

/**
 * Makes due what became so, and hands out up to `limit` jobs, group by group in turn. Arguments: now, limit, expiresAt,
 * inFlightMax, what tokens begin with, and the kinds. It looks at no more than so many groups and leases at a time.
 * Tokens end with `@` and the epoch.
 *
 * Answers with whether there may be more, the news of each kind, and for each lease kind, subject, group, realm, dueAt,
 * token, claims.
 */
export const claim = script(`${library}
local now, limit, expiresAt, inFlightMax, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local kinds, atOnce, mayBeMore = { unpack(ARGV, 6) }, 500, false

for _, kind in ipairs(kinds) do
  local own = base .. kind
  local expired = call('ZRANGEBYSCORE', own .. ':leased', '-inf', now, 'WITHSCORES', 'LIMIT', 0, atOnce)
  for at = 1, #expired, 2 do
    local subject = expired[at]
    local group = call('HGET', own .. ':job:' .. subject, 'group')
    if group then runOut(kind, subject, group, expired[at + 1], now) else call('ZREM', own .. ':leased', subject) end
  end
  local lapsed = call('ZRANGEBYSCORE', own .. ':throttled', '-inf', now, 'LIMIT', 0, atOnce)
  for _, group in ipairs(lapsed) do
    call('HDEL', own .. ':group:' .. group, 'cap', 'until')
    call('ZREM', own .. ':throttled', group)
    touch(kind, group, now, 0, false)
  end
  local due = call('ZRANGEBYSCORE', own .. ':later', '-inf', now, 'LIMIT', 0, atOnce)
  for _, group in ipairs(due) do touch(kind, group, now, 0, false) end
  mayBeMore = mayBeMore or #expired == 2 * atOnce or #lapsed == atOnce or #due == atOnce
end
settleTouched()

for _, kind in ipairs(kinds) do
  lines[kind] = {}
  for _, leases in ipairs(call('SMEMBERS', base .. kind .. ':lines')) do lines[kind][leases] = tonumber(leases) end
end

local function head(kind)
  local best
  for name, leases in pairs(lines[kind]) do
    if leases < inFlightMax then
      local first = call('ZRANGE', base .. kind .. ':line:' .. name, 0, 0, 'WITHSCORES')
      local turn = tonumber(first[2])
      if not turn then
        call('SREM', base .. kind .. ':lines', name)
        lines[kind][name] = nil
      elseif not best or turn < best.turn then
        best = { kind = kind, group = first[1], turn = turn, line = name }
      end
    end
  end
  return best
end

local heads, answer, count, ofEpoch = {}, { '' }, 0, '@' .. (call('GET', base .. 'epoch') or '')
for _, kind in ipairs(kinds) do heads[kind] = head(kind) end
while count < limit do
  local best
  for _, one in pairs(heads) do
    if not best or one.turn < best.turn then best = one end
  end
  if not best then break end
  local kind, group = best.kind, best.group
  local own = base .. kind
  local first = call('ZRANGE', own .. ':jobs:' .. group, 0, 1, 'WITHSCORES')
  local subject = first[1]
  local isTaken, isHeldAnew = false, false
  if subject and tonumber(first[2]) <= now then -- else another's clock is ahead
    local key = own .. ':job:' .. subject
    local job = call('HMGET', key, 'realm', 'dueAt', 'claims')
    call('ZREM', own .. ':jobs:' .. group, subject)
    isTaken = job[1] ~= false
    if isTaken then
      count = count + 1
      local token, claims = tokens .. '.' .. count .. ofEpoch, string.format('%d', job[3] + 1)
      call('HSET', key, 'token', token, 'claims', claims, 'besideDueAt', '')
      isHeldAnew = call('ZADD', own .. ':leased', expiresAt, subject) == 1 -- else a lease is left of a job that was lost
      for _, part in ipairs({ kind, subject, group, job[1], job[2], token, claims }) do answer[#answer + 1] = part end
    end
  end
  settle(kind, group, now, isHeldAnew and 1 or 0, isTaken and tonumber(expiresAt), isTaken and (first[4] or ''), best.line)
  heads[kind] = head(kind)
end

finish(now)
if count == limit or mayBeMore then answer[1] = 'more' end
for at, kind in ipairs(kinds) do table.insert(answer, at + 1, call('HGET', base .. 'news', kind) or '') end
return answer
`)

/**
 * When a job may be claimed: a time, or nothing if none is known. Arguments: now, and each kind with its news as of the
 * last claim that found no more. Whoever looks is told of news, once.
 */
export const look = script(`
local base, call, now, earliest = KEYS[1], redis.call, ARGV[1], nil
for at = 2, #ARGV, 2 do
  local own = base .. ARGV[at]
  if (call('HGET', base .. 'news', ARGV[at]) or '') ~= ARGV[at + 1] then
    for _, leases in ipairs(call('SMEMBERS', own .. ':lines')) do
      if call('EXISTS', own .. ':line:' .. leases) == 1 then return now end
    end
  end
  for _, name in ipairs({ ':later', ':leased', ':throttled' }) do
    local first = tonumber(call('ZRANGE', own .. name, 0, 0, 'WITHSCORES')[2])
    if first and (not earliest or first < earliest) then earliest = first end
  end
end
for at = 2, #ARGV, 2 do call('HSET', base .. 'waiting', ARGV[at], 1) end
return earliest and string.format('%.17g', earliest) or ''
`)

/** The name of what the server holds: the one given, if it holds nothing yet. */
export const epoch = script(`
if redis.call('EXISTS', KEYS[1] .. 'epoch') == 0 then redis.call('SET', KEYS[1] .. 'epoch', ARGV[1]) end
return redis.call('GET', KEYS[1] .. 'epoch')
`)

/** Whether our user may tell of news and hear of them: 1 or 0. Before version 7 nobody can ask, and all may unless told otherwise. */
export const mayTell = script(`
if not redis.acl_check_cmd then return 1 end
local news = KEYS[1] .. 'news'
return redis.acl_check_cmd('PUBLISH', news, '') and redis.acl_check_cmd('SUBSCRIBE', news) and 1 or 0
`)
