-- One bucket of a limit: the permits that are held, and how far the rate is used up.
--
-- A permit stands here from before its job is claimed until after its delivery has ended. Its score
-- is when it is to be asked after, should permits run short: its job's slot then knows whether a
-- delivery holds it. So a crash on either side of a claim costs a permit for a while, and no breach.
local HELD, TAT = T .. ':held', T .. ':tat'
local NOW_MAX = 2^53 - 1 - 3660 * 86400 * 1000000

local function reserve()
  local n, why, next_at = #E.tokens, 'none', 0
  if E.concurrency then
    local free = math.max(E.concurrency - call('ZCARD', HELD), 0)
    if free < n then n, why = free, 'held' end
  end
  -- Where no permit is left the rate is not asked, and stays as it is.
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

-- Permits that were not used also give the rate back what they took of it.
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
