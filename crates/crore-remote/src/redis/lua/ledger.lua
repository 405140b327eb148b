-- One bucket of a limit: the held permits, and the TAT (theoretical arrival time, as in GCRA) of the rate.
--
-- A permit is stored from before the claim of its job until after the end of the delivery. Its score is the
-- time after which it is checked if permits run short: the slot of its job knows whether a delivery holds it.
-- A crash during a claim may therefore block a permit for a while, but the limit is never exceeded.
local HELD, TAT = T .. ':held', T .. ':tat'
local NOW_MAX = 2^53 - 1 - 3660 * 86400 * 1000000

local function reserve()
  local n, why, next_at = #E.tokens, 'none', 0
  if E.concurrency then
    local free = math.max(E.concurrency - call('ZCARD', HELD), 0)
    if free < n then n, why = free, 'held' end
  end
  -- Without a free permit the rate is not evaluated, and stays unchanged.
  if E.interval and n > 0 then
    local now = math.min(NOW * 1000, NOW_MAX)
    local base = math.min(math.max(tonumber(call('GET', TAT) or '0'), now), now + E.full)
    local room = math.floor((now + E.full - base) / E.interval)
    if room < n then n, why = room, 'rate' end
    local tat = base + n * E.interval
    call('SET', TAT, num(tat))
    next_at = math.max(NOW, math.ceil((tat + E.interval - E.full) / 1000))
  end
  for i = 1, n do call('ZADD', HELD, NOW + E.check_after, E.tokens[i]) end
  local overdue = {}
  if why == 'held' then overdue = call('ZRANGEBYSCORE', HELD, '-inf', NOW, 'LIMIT', 0, 100) end
  return { n, why, next_at, overdue, NOW }
end

-- Unused permits also return their share of the rate.
local function give_back()
  for _, token in ipairs(E.tokens) do
    local was = call('ZREM', HELD, token)
    if was == 1 and E.interval then
      call('SET', TAT, num(math.max(tonumber(call('GET', TAT) or '0') - E.interval, 0)))
    end
  end
end

local function checked()
  for _, token in ipairs(E.dead) do call('ZREM', HELD, token) end
  for _, token in ipairs(E.alive) do call('ZADD', HELD, 'XX', NOW + E.check_after, token) end
end

if E.verb == 'reserve' then return reserve() end
if E.verb == 'checked' then checked() else give_back() end
return { 0 }
