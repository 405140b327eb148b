-- Extends leases. A lease never gets shorter.
local answers = {}
for i, lease in ipairs(E.leases) do
  local name = key('j', num(lease.id))
  local row = call('HMGET', name, 'state', 'delivery', 'lease_until', 'lease', 'stop')
  if row[1] == 'running' and tonumber(row[2]) == lease.delivery then
    local span = lease.span or tonumber(row[4] or E.default_lease)
    local till = math.max(tonumber(row[3]), after(span))
    call('HSET', name, 'lease_until', till)
    call('ZADD', T .. ':leases', till, ordered(lease.id))
    answers[i] = { till, row[5] and 1 or 0 }
  else
    answers[i] = false
  end
end
return answers
