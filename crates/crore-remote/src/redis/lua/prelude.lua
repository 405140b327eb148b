-- Common beginning of all scripts. KEYS[1] is the slot's tag; every other key is built from it, so a script
-- touches one slot only. ARGV[1] is a MessagePack map of arguments.
--
-- Numbers are doubles: ids, times and clock ticks stay below 2^53. `..` prints 14 digits only, so numbers
-- that may be longer go through `num`.
local T = KEYS[1]
local E = cmsgpack.unpack(ARGV[1])
local call = redis.call
local MAX_TIME = 253402300799999

local function num(n) return string.format('%.0f', n) end
local function key(sort, name) return T .. ':' .. sort .. ':' .. name end
local function has(text) return text ~= nil and text ~= false and text ~= '' end

-- The time: of the caller's clock, or of this Redis node.
local MICROS
if E.now then
  MICROS = E.now * 1000
else
  local t = call('TIME')
  MICROS = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local NOW = math.floor(MICROS / 1000)

local function after(span) return math.min(NOW + span, MAX_TIME) end

-- The slot's clock. It never goes back and never repeats a number, even if Redis loses its counter, since it
-- is never behind the time. Returns the first of `n` ticks.
local function ticks(n)
  local last = tonumber(call('GET', T .. ':clock') or '0')
  local first = math.max(last + 1, MICROS)
  call('SET', T .. ':clock', num(first + n - 1))
  return first
end

local function shard_of(id) return tonumber(id) % E.shards end

-- The fields of a job that scripts need, without its payload.
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

-- The position of a job in its lane. Only hex digits, so that it sorts alike in Redis and in Lua.
local function position(job)
  return string.format('%08x%012x%014x', job.priority + 2147483648, job.due, job.id)
end
local POSITION_LENGTH = 34

-- For each (queue, kind), the heads of its lanes are stored in order. For each queue, the kinds that have
-- ready jobs are stored.
local function heads_of(job) return key('k', job.queue .. '/' .. job.kind) end

local function move_head(heads, lane, old, new)
  if old == new then return end
  if old then call('ZREM', heads, old .. ':' .. lane) end
  if new then call('ZADD', heads, 0, new .. ':' .. lane) end
end

local function join_lane(job)
  local lane, heads, at = key('l', job.lane), heads_of(job), position(job)
  local old = call('ZRANGE', lane, 0, 0)[1]
  call('ZADD', lane, 0, at)
  if not old then call('SADD', key('q', job.queue), job.kind) end
  if not old or at < old then move_head(heads, job.lane, old, at) end
end

-- Removes positions from a lane. When the last lane of a kind is empty, the kind is removed from its queue.
local function quit_lane(queue, kind, name, positions)
  local lane, heads = key('l', name), key('k', queue .. '/' .. kind)
  local old = call('ZRANGE', lane, 0, 0)[1]
  for from = 1, #positions, 1000 do
    call('ZREM', lane, unpack(positions, from, math.min(from + 999, #positions)))
  end
  local new = call('ZRANGE', lane, 0, 0)[1]
  move_head(heads, name, old, new)
  if not new and call('EXISTS', heads) == 0 then call('SREM', key('q', queue), kind) end
end

local function ordered(id) return string.format('%014x', id) end

-- Adds a job to the index of its state (`enter`), or removes it (`leave`).
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
    quit_lane(job.queue, job.kind, job.lane, { position(job) })
  elseif job.state == 'scheduled' then
    call('ZREM', T .. ':timers', ordered(job.id))
  elseif job.state == 'running' then
    call('ZREM', T .. ':leases', ordered(job.id))
  elseif job.state == 'waiting' then
    call('SREM', T .. ':broken', num(job.id))
  end
end

-- Locks of unique keys and client ids: `job:<id>:<until>`, or `held:<home>:<since>:<token>` for an unfinished
-- push. An expired lock is free.
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
