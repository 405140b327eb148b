-- Operations that write to a slot: commits, messages from other slots, and the steps around them.
--
-- `release`, `snap`, `apply_change`, `tally` and the seal change a record as `crore-core` does. They are here
-- because each must be atomic with its guard or its message, and reads the slot's state at that moment.
-- Consequences of a state or a count are looked up in tables that are generated from `crore-core`.
local DIRTY = {}

-- The state of a job that has not started: waiting, scheduled or ready.
local function pending(job) return PENDING[job.waits > 0 or has(job.broken)][job.due > NOW] end

-- Puts a message for another slot into the outbox. The slot's clock numbers it, and the receiver accepts only
-- newer numbers than the last, so it is applied once however often it is sent.
local function send(to, ops)
  local seq = ticks(1)
  call('ZADD', key('o', to), num(seq), ordered(seq) .. cmsgpack.pack(ops))
  call('SADD', T .. ':outbox', to)
  DIRTY[to] = true
end

local run

-- Runs an operation in the slot where it belongs.
local function at(slot, op)
  if slot == E.slot then run(op) else send(slot, { op }) end
end

-- A verdict (`release` or `snap`) may arrive before its job, because they come through the outboxes of
-- different slots. It is counted, and applied when the job is stored.
local function too_early(verb, id)
  call('HINCRBY', key('early', num(id)), verb, 1)
  call('EXPIRE', key('early', num(id)), 86400)
end

-- A dependency of the job is satisfied. `quiet`: it was satisfied before the job was stored, so the job's
-- revision does not change.
local function release(id, quiet)
  local job = load(id)
  if not job then return too_early('release', id) end
  local waits = math.max(job.waits - 1, 0)
  leave(job)
  job.waits = waits
  if job.state == 'waiting' then job.state = pending(job) end
  enter(job)
  local revision = quiet and job.revision or job.revision + 1
  call('HSET', job.key, 'waits', waits, 'revision', num(revision), 'state', job.state)
end

-- A dependency of the job can no longer be satisfied: marks a waiting job as broken.
local function snap(id)
  local job = load(id)
  if not job then return too_early('snap', id) end
  if job.state ~= 'waiting' then return release(id) end
  job.broken = '1'
  enter(job)
  call('HSET', job.key, 'waits', math.max(job.waits - 1, 0), 'broken', '1', 'revision', num(job.revision + 1))
end

-- Applies verdicts to the dependants of a job or group. Each dependant is stored as `<needs>:<job>:<nth>`.
local function settle_dependants(thing, verdicts)
  local name = key('d', thing)
  for _, member in ipairs(call('SMEMBERS', name)) do
    local needs, dependant = string.match(member, '^(%a+):(%d+):')
    local verb = verdicts[needs]
    if verb then
      call('SREM', name, member)
      local id = tonumber(dependant)
      at(shard_of(id), { op = verb, id = id })
    end
  end
end

local function group(id)
  local row = call('HMGET', key('g', num(id)), 'size', 'ran', 'succeeded', 'sealed', 'revision', 'lost')
  if not row[1] then return nil end
  return { size = tonumber(row[1]), ran = tonumber(row[2]), succeeded = tonumber(row[3]),
    sealed = row[4] == '1', revision = tonumber(row[5]), lost = row[6] == '1' }
end

local function group_verdicts(g)
  if not g then return GROUP_VERDICTS.none end
  local function digit(is) return is and '1' or '0' end
  return GROUP_VERDICTS[digit(g.sealed) .. digit(g.lost) .. digit(g.ran >= g.size) .. digit(g.succeeded >= g.size)]
end

local function group_row(g)
  return g and { g.size, g.ran, g.succeeded, g.sealed and 1 or 0, g.revision, g.lost and 1 or 0 }
end

local function write_group(id, g)
  call('HSET', key('g', num(id)), 'size', num(g.size), 'ran', num(g.ran), 'succeeded', num(g.succeeded),
    'sealed', g.sealed and '1' or '0', 'lost', g.lost and '1' or '0', 'revision', num(g.revision))
  settle_dependants('g' .. num(id), group_verdicts(g))
end

-- Stores a new job.
local function put(p, id)
  local due = NOW
  if p.due == 'after' then due = after(p.due_ms) end
  if p.due == 'at' then due = math.max(p.due_ms, NOW) end
  local job = { id = id, key = key('j', num(id)), queue = p.queue, kind = p.kind, lane = p.lane,
    priority = p.priority, due = due, waits = p.waits or 0 }
  job.state = pending(job)
  local row = { 'state', job.state, 'queue', p.queue, 'kind', p.kind, 'lane', p.lane,
    'priority', p.priority, 'due', due, 'pushed', NOW, 'spec', p.spec, 'payload', p.payload }
  local function add(field, value)
    if value ~= nil then row[#row + 1] = field; row[#row + 1] = value end
  end
  if job.waits > 0 then add('waits', job.waits) end
  add('lease', p.lease); add('unique', p.unique); add('hold', p.hold)
  add('client', p.client); add('client_shard', p.client_shard)
  add('group', p.group); add('after', p.after); add('parent', p.parent)
  call('HSET', job.key, unpack(row))
  if p.unique then
    local till = p.window and num(math.min(due + p.window, MAX_TIME)) or ''
    call('HSET', LOCKS, p.unique, 'job:' .. num(id) .. ':' .. till)
  end
  if p.client and (p.client_shard or E.slot) == E.slot then
    call('HSET', LOCKS, p.client, 'job:' .. num(id) .. ':')
  end
  enter(job)
  if job.waits > 0 then
    local early = call('HMGET', key('early', num(id)), 'release', 'snap')
    for _ = 1, tonumber(early[1] or '0') do release(id) end
    for _ = 1, tonumber(early[2] or '0') do snap(id) end
  end
end

-- The unfinished push that holds a lock of these new jobs, if there is one.
local function unfinished_push(puts)
  for _, p in ipairs(puts) do
    for _, name in ipairs({ p.unique or '', p.client or '' }) do
      local held = name ~= '' and lock(name)
      if held and held.home then return busy(held) end
    end
  end
end

local function put_all(puts)
  local answers = {}
  for i, p in ipairs(puts) do
    local held = (p.unique and lock(p.unique)) or (p.client and lock(p.client))
    if held then
      answers[i] = { 'duplicate', held.id }
    else
      local id = call('INCR', T .. ':seq') * E.shards + E.slot
      put(p, id)
      answers[i] = { 'new', id }
    end
  end
  return answers
end

-- The job's history with its current delivery added as an ended attempt.
local function close_delivery(job, next)
  local history = call('HGET', job.key, 'history')
  history = history and cmsgpack.unpack(history) or {}
  local row = { job.delivery, job.started, NOW, job.worker or '', next.ended, next.error or '', next.details or '' }
  table.insert(history, 1, row)
  history[E.max_history + 1] = nil
  return cmsgpack.pack(history)
end

local function release_client(job)
  if has(job.client) then
    local slot = tonumber(job.client_shard or E.slot)
    at(slot, { op = 'unlock', name = job.client, id = job.id })
  end
end

-- Applies a change to a job's record; the caller has checked the guard.
local function apply_change(job, c)
  leave(job)
  local next = c.next
  if not next then
    release_client(job)
    call('DEL', job.key)
    return
  end
  local row = { 'attempt', next.attempt, 'crashes', next.crashes, 'revision', num(job.revision + 1) }
  local gone = { 'nothing' }
  local function set(field, value)
    if value ~= nil then row[#row + 1] = field; row[#row + 1] = value else gone[#gone + 1] = field end
    job[field] = value
  end
  if next.ended then set('history', close_delivery(job, next)) end
  set('broken', next.broken and '1' or nil)
  set('stop', next.stop and '1' or nil)
  set('counted', next.counted and '1' or nil)
  set('why', next.why)
  if next.due == 'now' then job.due = NOW end
  if next.due == 'after' then job.due = after(next.due_ms) end
  if next.due == 'at' then job.due = math.max(next.due_ms, NOW) end
  set('due', job.due)
  local ended = job.ended
  set('state', next.state == 'pending' and pending(job) or next.state)
  set('ended', ENDED[job.state] and (ended or NOW) or nil)
  if next.result == 'drop' or next.result == 'set' then
    set('result', next.result == 'set' and next.payload or nil)
    set('result_is', next.result == 'set' and next.encoding or nil)
    set('result_until', next.result == 'set' and after(next.span) or nil)
    set('result_once', next.once and '1' or nil)
  end
  if next.spec then
    set('spec', next.spec); set('payload', next.bytes); set('lease', next.lease)
    set('queue', next.queue); set('kind', next.kind); set('lane', next.lane); set('priority', next.priority)
  end
  call('HSET', job.key, unpack(row))
  call('HDEL', job.key, unpack(gone))
  enter(job)
end

-- Removes the permits of a delivery that has ended. Returns the lane and the tokens, for the ledgers.
local function remove_permits(job)
  if not has(job.permits) then return false end
  for token in string.gmatch(job.permits, '[^,]+') do call('HDEL', T .. ':permits', token) end
  call('HDEL', job.key, 'permits')
  return { job.lane, job.permits }
end

-- Changes the job itself, and frees what it held.
local function change(job, c)
  local permits = c.permits and remove_permits(job)
  apply_change(job, c)
  if c.unlock and has(job.unique) then unlock(job.unique, job.id) end
  return permits
end

-- Effects on other records. Follow-ups are pushed before, so that a follow-up that joins its parent's group
-- is counted before the group can end.
local function consequences(job, c)
  if c.tally and has(job.group) then
    local id = tonumber(job.group)
    at(shard_of(id), { op = 'tally', id = id, size = c.tally[1], ran = c.tally[2], succeeded = c.tally[3],
      lost = c.tally[4] == 1 })
  end
  if c.settle then settle_dependants('j' .. num(job.id), c.settle) end
  if not c.next then call('DEL', key('d', 'j' .. num(job.id))) end
end

-- Whether the job is still at the version that the caller has seen.
local function same(job, seen)
  if not job or job.state ~= seen.state then return false end
  if seen.lease_until >= 0 and tonumber(job.lease_until) ~= seen.lease_until then return false end
  return job.delivery == seen.delivery and job.revision == seen.revision
end

-- Entries of the registry: `{revision, expires, value, cursor}` by name; revisions outlive removal.
local function entry(table_, name)
  local packed = call('HGET', key('v', table_), name)
  local row = packed and cmsgpack.unpack(packed)
  if not row or (row[2] and row[2] <= NOW) then return nil end
  return row
end

local function write_entry(table_, name, row)
  local revision = call('HINCRBY', key('w', table_), name, 1)
  if row then
    row[1] = revision
    call('HSET', key('v', table_), name, cmsgpack.pack(row))
    call('ZADD', key('n', table_), 0, name)
  else
    call('HDEL', key('v', table_), name)
    call('ZREM', key('n', table_), name)
  end
  return revision
end

local function guard_holds(d)
  local old = entry(d.table, d.name)
  if d.guard == 'absent' then return not old end
  return d.guard ~= 'at' or (old and old[1] == d.revision)
end

-- Sets or removes an entry, whatever its guard.
local function define_one(d)
  local old = entry(d.table, d.name)
  if not d.value and not old then
    return { 'yes', tonumber(call('HGET', key('w', d.table), d.name) or '0') }
  end
  local row = d.value and { 0, d.expires and after(d.expires) or false, d.value, d.cursor or false }
  local revision = write_entry(d.table, d.name, row)
  if d.queue then
    local till = d.paused and (row[2] or MAX_TIME + 1) or nil
    for slot = 0, E.shards - 1 do send(slot, { { op = 'pause', queue = d.queue, till = till } }) end
  end
  return { 'yes', revision }
end

-- Definitions in order. Joint ones apply all or none; their guards are checked first.
local function define(d)
  local joint_hold, answers = true, {}
  for _, one in ipairs(d.all) do
    if one.joint and not guard_holds(one) then joint_hold = false end
  end
  for i, one in ipairs(d.all) do
    local holds = joint_hold
    if not one.joint then holds = guard_holds(one) end
    answers[i] = holds and define_one(one) or { 'stale' }
  end
  return answers
end

-- A commit: if all guards hold, it writes everything, including the messages for other slots.
local function commit(c)
  if c.deadline and NOW > c.deadline then return { 'late' } end
  local job = c.change and load(c.change.id)
  if c.change and not same(job, c.change.seen) then return { 'stale' } end
  local g = c.seal and group(c.seal)
  if c.seal and (not g or g.sealed) then return { 'stale' } end
  local row = c.tick and entry('schedules', c.tick.name)
  if c.tick and (not row or row[1] ~= c.tick.revision) then return { 'stale' } end
  for _, name in ipairs(c.freed or {}) do
    local held = lock(name)
    if held and held.id ~= c.change.id then return { 'late' } end
  end
  -- A group that was sealed since the push was planned.
  for _, id in ipairs(c.joined or {}) do
    local joined = group(id)
    if joined and joined.sealed then return { 'late' } end
  end
  local other = unfinished_push(c.puts or {})
  if other then return other end

  local permits = job and change(job, c.change) or false
  if g then
    g.sealed = true
    g.revision = g.revision + 1
    write_group(c.seal, g)
  end
  if row then
    row[4] = c.tick.cursor
    write_entry('schedules', c.tick.name, row)
  end
  local answers = put_all(c.puts or {})
  for _, op in ipairs(c.ops or {}) do run(op) end
  for _, message in ipairs(c.out or {}) do
    if #message[2] > 0 then send(message[1], message[2]) end
  end
  if job then consequences(job, c.change) end
  return { 'yes', answers, permits }
end

-- The state of a job or the counts of a group, for the plan of a new job; false if it does not exist.
local function fact(thing)
  if string.sub(thing, 1, 1) == 'g' then return group_row(group(tonumber(string.sub(thing, 2)))) or false end
  return call('HGET', key('j', string.sub(thing, 2)), 'state')
end

-- Takes locks for a push across slots, allocates ids, and reports states.
local function reserve(r)
  local answers = { 0, {}, {} }
  if r.ids > 0 then answers[1] = (call('INCRBY', T .. ':seq', r.ids) - r.ids + 1) * E.shards + E.slot end
  for i, name in ipairs(r.locks) do
    local held = lock(name)
    if not held then
      call('HSET', LOCKS, name, 'held:' .. r.home .. ':' .. num(NOW) .. ':' .. r.token)
      answers[2][i] = { 'held' }
    elseif held.home then
      answers[2][i] = busy(held)
    else
      answers[2][i] = { 'taken', held.id }
    end
  end
  for i, thing in ipairs(r.things) do answers[3][i] = fact(thing) end
  answers[4] = NOW
  return answers
end

local OPS = {
  commit = commit,
  reserve = reserve,
  define = define,
  put = function(p) put(p, p.id) end,
  group = function(g) write_group(g.id, { size = g.size, ran = 0, succeeded = 0, sealed = g.sealed, revision = g.revision }) end,
  tally = function(t)
    local g = group(t.id)
    if not g then return end
    g.size = math.max(g.size + t.size, 0)
    g.ran = math.max(g.ran + t.ran, 0)
    g.succeeded = math.max(g.succeeded + t.succeeded, 0)
    g.lost = g.lost or t.lost
    g.revision = g.revision + 1
    write_group(t.id, g)
  end,
  edge = function(e)
    local id, verdict = tonumber(string.sub(e.on, 2)), nil
    if string.sub(e.on, 1, 1) == 'g' then
      verdict = group_verdicts(group(id))[e.needs]
    else
      local job = load(id)
      verdict = JOB_VERDICTS[job and job.state or 'gone'][e.needs]
    end
    if verdict then
      at(shard_of(e.job), { op = verdict, id = e.job, quiet = e.quiet })
    else
      call('SADD', key('d', e.on), e.needs .. ':' .. num(e.job) .. ':' .. e.nth)
    end
  end,
  release = function(r) release(r.id, r.quiet) end,
  snap = function(s) snap(s.id) end,
  lock = function(l) call('HSET', LOCKS, l.name, 'job:' .. num(l.id) .. ':') end,
  unlock = function(u) unlock(u.name, u.id) end,
  -- Releases locks of a push, unless they belong to a job by now.
  unhold = function(u)
    for _, name in ipairs(u.names) do
      local held = lock(name)
      if held and held.token == u.token then call('HDEL', LOCKS, name) end
    end
  end,
  pause = function(p)
    if p.till then call('HSET', T .. ':paused', p.queue, num(p.till)) else call('HDEL', T .. ':paused', p.queue) end
  end,
  -- The slots with waiting messages, and the first messages of each, oldest first.
  outbox = function()
    local boxes = {}
    for _, to in ipairs(call('SMEMBERS', T .. ':outbox')) do
      local messages = call('ZRANGE', key('o', to), 0, 99, 'WITHSCORES')
      if #messages == 0 then call('SREM', T .. ':outbox', to) else boxes[#boxes + 1] = { tonumber(to), messages } end
    end
    return boxes
  end,
  sent = function(s)
    call('ZREMRANGEBYSCORE', key('o', s.to), '-inf', num(s.seq))
    if call('EXISTS', key('o', s.to)) == 0 then call('SREM', T .. ':outbox', s.to) end
  end,
  receive = function(r)
    local last = tonumber(call('HGET', T .. ':inbox', r.from) or '0')
    for _, message in ipairs(r.messages) do
      if message[1] > last then
        for _, op in ipairs(cmsgpack.unpack(string.sub(message[2], 15))) do run(op) end
        last = message[1]
      end
    end
    call('HSET', T .. ':inbox', r.from, num(last))
  end,
  -- Which of these permits are held by a running delivery of this slot.
  alive = function(a)
    local answers = {}
    for i, token in ipairs(a.tokens) do answers[i] = call('HEXISTS', T .. ':permits', token) end
    return answers
  end,
  read_group = function(r) return group_row(group(r.id)) end,
  -- The group of a job; false if it has none or does not exist.
  group_of = function(r) return call('HGET', key('j', num(r.id)), 'group') end,
  entries = function(e)
    local from = e.after and '(' .. e.after or '-'
    local rows = {}
    while #rows < e.n do
      local names = call('ZRANGEBYLEX', key('n', e.table), from, '+', 'LIMIT', 0, e.n)
      for _, name in ipairs(names) do
        local row = entry(e.table, name)
        if row and #rows < e.n then rows[#rows + 1] = { name, row[1], row[2], row[3], row[4] } end
        from = '(' .. name
      end
      if #names < e.n then break end
    end
    return rows
  end,
  values = function(v)
    local answers = {}
    for i, name in ipairs(v.names) do
      local row = entry(v.table, name)
      answers[i] = row and row[3] or false
    end
    return answers
  end,
  -- The first caller fixes the number of shards.
  open = function(o)
    call('SETNX', T .. ':shards', o.shards)
    return { tonumber(call('GET', T .. ':shards')), num(ticks(1)) }
  end,
}

run = function(op) return OPS[op.op](op) end

local answers = {}
for i, op in ipairs(E.ops) do
  local answer = run(op)
  answers[i] = answer or false
  if type(answer) == 'table' and answer[1] == 'busy' then break end
end
local dirty = 0
for _ in pairs(DIRTY) do dirty = 1 end
return { NOW, dirty, answers }
