-- Reports (`look`) or claims the first ready jobs of some queues.
--
-- A lane with limits gives at most as many jobs as `permits` has permits for it. If a lane is missing there,
-- nothing is claimed, and the answer reports the candidates, as with `look`.

-- The upper bound of `ZRANGEBYLEX` for jobs that are not behind `worst`; nil if there are none.
local function at_most(worst, prefix)
  if not worst then return '+' end
  local other = string.sub(worst, 1, #prefix)
  if prefix < other then return '+' end
  if prefix > other then return nil end
  return '[' .. string.sub(worst, #prefix + 1)
end

local best, worst = {}, E.bound

local function add_candidates(positions, prefix, lane, queue, kind, limited)
  for _, at in ipairs(positions) do
    best[#best + 1] = { prefix .. at, at, lane, queue, kind, limited }
  end
  table.sort(best, function(a, b) return a[1] < b[1] end)
  for i = #best, E.n + 1, -1 do best[i] = nil end
  if #best == E.n then worst = best[E.n][1] end
end

local function scan_lane(entry, prefix, queue, kind)
  local lane = string.sub(entry, POSITION_LENGTH + 2)
  local limited = #lane > #queue + #kind + 1
  local room = E.n
  if limited and E.permits[lane] then room = #E.permits[lane] end
  local upto = at_most(worst, prefix)
  if not upto or prefix .. string.sub(entry, 1, POSITION_LENGTH) > (worst or '~') then return false end
  if room > 0 then
    local positions = call('ZRANGEBYLEX', key('l', lane), '-', upto, 'LIMIT', 0, room)
    add_candidates(positions, prefix, lane, queue, kind, limited)
  end
  return true
end

-- Heads are in order, so the first one beyond the bound ends the scan of a kind.
local function scan_kind(prefix, queue, kind)
  local heads, from = key('k', queue .. '/' .. kind), 0
  while true do
    local entries = call('ZRANGE', heads, from, from + 31)
    for _, entry in ipairs(entries) do
      if not scan_lane(entry, prefix, queue, kind) then return end
    end
    if #entries < 32 then return end
    from = from + 32
  end
end

for nth, queue in ipairs(E.n > 0 and E.queues or {}) do
  local paused = tonumber(call('HGET', T .. ':paused', queue) or '0')
  if paused <= NOW then
    local prefix = E.strict and string.format('%08x', nth) or ''
    for _, kind in ipairs(E.kinds or call('SMEMBERS', key('q', queue))) do
      scan_kind(prefix, queue, kind)
    end
  end
end

local function candidates()
  local rows = {}
  for i, b in ipairs(best) do rows[i] = { b[1], b[3], b[6] and 1 or 0 } end
  return { NOW, 'candidates', rows }
end

if E.look then return candidates() end
if E.deadline and NOW > E.deadline then return { NOW, 'late', {} } end
for _, b in ipairs(best) do
  if b[6] and not E.permits[b[3]] then return candidates() end
end
if #best == 0 then return { NOW, 'taken', {} } end

local lanes, taken, tick = {}, {}, ticks(#best)
for i, b in ipairs(best) do
  local id = tonumber(string.sub(b[2], 21), 16)
  local name = key('j', num(id))
  local row = call('HMGET', name, 'revision', 'attempt', 'lease', 'unique', 'hold')
  local lease_until = after(tonumber(row[3] or E.default_lease))
  call('HSET', name, 'state', 'running', 'delivery', num(tick + i - 1), 'revision', num(tonumber(row[1] or '0') + 1),
    'attempt', tonumber(row[2] or '0') + 1, 'started', NOW, 'lease_until', lease_until, 'worker', E.worker)
  call('ZADD', T .. ':leases', lease_until, ordered(id))
  if row[5] == 'until-start' then unlock(row[4], id) end
  local lane = lanes[b[3]]
  if not lane then
    lane = { queue = b[4], kind = b[5], positions = {} }
    lanes[b[3]] = lane
  end
  lane.positions[#lane.positions + 1] = b[2]
  if b[6] then
    local tokens = E.permits[b[3]][#lane.positions]
    call('HSET', name, 'permits', tokens)
    for token in string.gmatch(tokens, '[^,]+') do call('HSET', T .. ':permits', token, num(id)) end
  end
  taken[i] = { b[1], num(id), call('HGETALL', name) }
end
for name, lane in pairs(lanes) do quit_lane(lane.queue, lane.kind, name, lane.positions) end
return { NOW, 'taken', taken }
