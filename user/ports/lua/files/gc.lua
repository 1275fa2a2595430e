-- The collector: weak tables, ephemerons, finalizers, both modes, memory that comes back.
local function live() collectgarbage() collectgarbage() return collectgarbage("count") end
local before = live()
do
  local heap = {}
  for i = 1, 50000 do heap[i] = { i, tostring(i) } end
  assert(collectgarbage("count") > before + 3000)
end
assert(live() < before + 1500)
local weak_values, weak_keys = setmetatable({}, { __mode = "v" }), setmetatable({}, { __mode = "k" })
local kept = {}
for i = 1, 100 do
  local object = {}
  weak_values[i], weak_keys[object] = object, { object }
  if i % 10 == 0 then kept[#kept + 1] = object end
end
live()
local values, keys = 0, 0
for _ in pairs(weak_values) do values = values + 1 end
for _ in pairs(weak_keys) do keys = keys + 1 end
print(values, keys)
local order = {}
for i = 1, 5 do setmetatable({}, { __gc = function() order[#order + 1] = i end }) end
live()
print(table.concat(order, " "))
local again
setmetatable({}, { __gc = function(object) again = object end })
live()
assert(again)
for _, mode in ipairs { "generational", "incremental" } do
  collectgarbage(mode)
  local list
  for i = 1, 200000 do
    list = { next = i % 100 ~= 1 and list or nil, text = "item " .. i % 1000 }
  end
  local length = 0
  while list do list, length = list.next, length + 1 end
  print(mode, length)
end
collectgarbage("stop")
assert(not collectgarbage("isrunning"))
collectgarbage("restart")
repeat until collectgarbage("step", 100)
setmetatable({}, { __gc = function() print("finalized at the end") end })
