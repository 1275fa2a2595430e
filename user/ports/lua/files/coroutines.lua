-- Generators, a producer and a consumer, errors and closing within coroutines, wrap, deep recursion.
local function permutations(list, n)
  n = n or #list
  if n <= 1 then coroutine.yield(list) end
  for i = 1, n do
    list[n], list[i] = list[i], list[n]
    permutations(list, n - 1)
    list[n], list[i] = list[i], list[n]
  end
end
local count, last = 0, nil
for list in coroutine.wrap(function() permutations { 1, 2, 3, 4, 5 } end) do
  count, last = count + 1, table.concat(list)
end
print(count, last)
local producer = coroutine.create(function(...)
  local sent = select("#", ...)
  for i = 1, 3 do sent = sent + coroutine.yield(i) end
  return "sent", sent
end)
print(coroutine.resume(producer, "a", "b"))
print(coroutine.resume(producer, 10))
print(coroutine.resume(producer, 20))
print(coroutine.resume(producer, 30))
print(coroutine.resume(producer), coroutine.status(producer))
local failing = coroutine.create(function() local t; return t.field end)
local ok, message = coroutine.resume(failing)
print(ok, message, coroutine.status(failing))
local closed
local waiting = coroutine.create(function()
  local resource <close> = setmetatable({}, { __close = function() closed = true end })
  coroutine.yield()
end)
coroutine.resume(waiting)
assert(coroutine.close(waiting) and closed)
assert(select(2, coroutine.running()) and not coroutine.isyieldable())
local threads = {}
for i = 1, 2000 do
  threads[i] = coroutine.wrap(function() for step = 1, 5 do coroutine.yield(i * step) end end)
end
local total = 0
for _ = 1, 5 do for i = 1, #threads do total = total + threads[i]() end end
print(total)
local function depth(n) return n == 0 and 0 or 1 + depth(n - 1) end
print(depth(150000), pcall(function() local function forever() return 1 + forever() end return forever() end))
print(select(2, pcall(string.rep, "x", 1 << 40)))
