-- Reads whole records.
local answers = {}
for i, id in ipairs(E.ids) do answers[i] = call('HGETALL', key('j', num(id))) end
return answers
