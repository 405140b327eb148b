-- What every script of a slot begins with. KEYS[1] is the slot's tag; every other key is built from
-- it, so all that a script touches lies in one slot. ARGV[1] is a MessagePack map of arguments.
--
-- Numbers are doubles: ids, times and clock ticks stay below 2^53. `..` prints 14 digits only, so
-- numbers that may be longer go through `num`.
local T = KEYS[1]
local E = cmsgpack.unpack(ARGV[1])
local call = redis.call
local MAX_TIME = 253402300799999

local function num(n) return string.format('%.0f', n) end
local function key(sort, name) return T .. ':' .. sort .. ':' .. name end
local function has(text) return text ~= nil and text ~= false and text ~= '' end

-- The time: the test clock's, or this Redis's own.
local MICROS
if E.now then
  MICROS = E.now * 1000
else
  local t = call('TIME')
  MICROS = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local NOW = math.floor(MICROS / 1000)

local function after(span) return math.min(NOW + span, MAX_TIME) end

-- The slot's own clock: it never goes back and never ticks twice at one number, also if Redis forgot
-- what it counted, since it is never behind the time. Gives the first of `n` ticks.
local function ticks(n)
  local last = tonumber(call('GET', T .. ':clock') or '0')
  local first = math.max(last + 1, MICROS)
  call('SET', T .. ':clock', num(first + n - 1))
  return first
end

local function shard_of(id) return tonumber(id) % E.shards end

-- What scripts need of a job, without its payload.
local FIELDS = { 'state', 'delivery', 'revision', 'attempt', 'crashes', 'due', 'started', 'lease_until',
  'ended', 'worker', 'waits', 'broken', 'queue', 'kind', 'lane', 'priority', 'lease', 'unique', 'hold',
  'client', 'client_shard', 'group', 'permits' }

local function load(id)
  local name = key('j', num(id))
  local row = call('HMGET', name, unpack(FIELDS))
  if not row[1] then return nil end
  local job = { id = id, key = name }
  for i, field in ipairs(FIELDS) do job[field] = row[i] or nil end
  for _, field in ipairs({ 'delivery', 'revision', 'attempt', 'crashes', 'due', 'started', 'waits', 'priority' }) do
    job[field] = tonumber(job[field] or '0')
  end
  return job
end

-- The place of a job in its lane. Only hex digits, so that it sorts alike in Redis and in Lua.
local function place(job)
  return string.format('%08x%012x%014x', job.priority + 2147483648, job.due, job.id)
end
local PLACE = 34

-- A desk (queue, kind) keeps the head of each of its lanes, in order; a queue its desks with any.
local function desk_of(job) return key('k', job.queue .. '/' .. job.kind) end

local function move_head(desk, lane, old, new)
  if old == new then return end
  if old then call('ZREM', desk, old .. ':' .. lane) end
  if new then call('ZADD', desk, 0, new .. ':' .. lane) end
end

local function join_lane(job)
  local lane, desk, at = key('l', job.lane), desk_of(job), place(job)
  local old = call('ZRANGE', lane, 0, 0)[1]
  call('ZADD', lane, 0, at)
  if not old then call('SADD', key('q', job.queue), job.kind) end
  if not old or at < old then move_head(desk, job.lane, old, at) end
end

-- Takes places out of a lane; the desk leaves its queue with its last lane.
local function quit_lane(queue, kind, name, places)
  local lane, desk = key('l', name), key('k', queue .. '/' .. kind)
  local old = call('ZRANGE', lane, 0, 0)[1]
  for from = 1, #places, 1000 do
    call('ZREM', lane, unpack(places, from, math.min(from + 999, #places)))
  end
  local new = call('ZRANGE', lane, 0, 0)[1]
  move_head(desk, name, old, new)
  if not new and call('EXISTS', desk) == 0 then call('SREM', key('q', queue), kind) end
end

local function ordered(id) return string.format('%014x', id) end

-- Puts a job where its state says, and takes it away from there.
local function enter(job)
  if job.state == 'ready' then
    join_lane(job)
  elseif job.state == 'scheduled' then
    call('ZADD', T .. ':timers', job.due, ordered(job.id))
  elseif job.state == 'running' then
    call('ZADD', T .. ':leases', job.lease_until, ordered(job.id))
  elseif job.state == 'waiting' and has(job.broken) then
    call('SADD', T .. ':broken', num(job.id))
  end
end

local function leave(job)
  if job.state == 'ready' then
    quit_lane(job.queue, job.kind, job.lane, { place(job) })
  elseif job.state == 'scheduled' then
    call('ZREM', T .. ':timers', ordered(job.id))
  elseif job.state == 'running' then
    call('ZREM', T .. ':leases', ordered(job.id))
  elseif job.state == 'waiting' then
    call('SREM', T .. ':broken', num(job.id))
  end
end

-- Locks of unique keys and client ids: `job:<id>:<until>`, or `held:<home>:<since>:<token>` for a push
-- that is under way. A lock whose time is over is none.
local LOCKS = T .. ':locks'

local function lock(name)
  local value = call('HGET', LOCKS, name)
  if not value then return nil end
  local id, till = string.match(value, '^job:(%d+):(%d*)$')
  if id then
    if has(till) and tonumber(till) <= NOW then return nil end
    return { id = tonumber(id) }
  end
  local home, since, token = string.match(value, '^held:(%d+):(%d+):(.*)$')
  return { home = tonumber(home), since = tonumber(since), token = token, name = name }
end

local function busy(held) return { 'busy', held.home, held.token, held.name, NOW - held.since } end

local function unlock(name, id)
  local held = lock(name)
  if held and held.id == id then call('HDEL', LOCKS, name) end
end
