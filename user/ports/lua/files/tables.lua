-- Sorting, moving, metatables, integer keys, varargs.
local numbers, seed = {}, 42
for i = 1, 5000 do
  seed = (seed * 1103515245 + 12345) % 2147483648
  numbers[i] = seed
end
table.sort(numbers)
for i = 2, #numbers do assert(numbers[i - 1] <= numbers[i]) end
table.sort(numbers, function(a, b) return a > b end)
print(numbers[1], numbers[2500], numbers[5000])
local words = { "pear", "fig", "apple" }
table.insert(words, 2, "kiwi")
assert(table.remove(words, 1) == "pear" and table.concat(words, " ") == "kiwi fig apple")
assert(table.unpack(table.move({ 1, 2, 3 }, 1, 3, 2)) == 1 and table.pack(nil, nil).n == 2 and select("#", table.unpack({}, 1, 3)) == 3)
assert(not pcall(table.concat, { {} }) and not pcall(next, {}, "absent"))

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({ x = a.x + b.x }, Vector) end
Vector.__eq = function(a, b) return a.x == b.x end
Vector.__lt = function(a, b) return a.x < b.x end
Vector.__le = function(a, b) return a.x <= b.x end
Vector.__call = function(self, by) return self.x * by end
Vector.__tostring = function(self) return "<" .. self.x .. ">" end
Vector.__len = function() return 7 end
Vector.__concat = function(a, b) return tostring(a) .. tostring(b) end
local function vector(x) return setmetatable({ x = x }, Vector) end
assert(vector(1) + vector(2) == vector(3) and vector(1) < vector(2) and vector(2) <= vector(2) and vector(3)(4) == 12)
print(tostring(vector(5)), #vector(1), vector(1) .. "!")
local seen = {}
local proxy = setmetatable({}, { __index = function(_, key) return key .. "?" end, __newindex = function(_, key, value) seen[key] = value end })
proxy.a = 1
assert(proxy.a == "a?" and seen.a == 1 and rawget(proxy, "a") == nil)
local closed = {}
do
  local guard <close> = setmetatable({}, { __close = function() closed[#closed + 1] = "guard" end })
  local limit <const> = 3
  assert(limit == 3 and #closed == 0)
end
assert(closed[1] == "guard")
local sparse = { [1] = 1, [2] = 2, [4] = 4, [1 << 40] = "far", [1.5] = "half", [true] = "yes" }
local count = 0
for _ in pairs(sparse) do count = count + 1 end
assert(count == 6 and sparse[2^40] == "far")
for i = 3, 1, -1 do goto continue; print "never"; ::continue:: end
local function sum(...)
  local total = 0
  for _, value in ipairs { ... } do total = total + value end
  return total, select("#", ...)
end
print(sum(1, 2, 3, table.unpack(numbers, 4990, 5000)))
