-- Returns the jobs that hold these locks.
local answers = {}
for i, name in ipairs(E.names) do
  local held = lock(name)
  answers[i] = held and held.id or false
end
return answers
