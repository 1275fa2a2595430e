-- Errors of all kinds, tracebacks, handlers, and errors of the compiler. Lua raises errors by
-- longjmp.
print(pcall(error, "plain"))
print(type(select(2, pcall(error, { code = 7 }))))
print(select(2, pcall(error, setmetatable({}, { __tostring = function() return "object" end }))))
print(pcall(function() error("here", 2) end))
print(pcall(function() return {} < {} end))
print(pcall(function() return #5 end))
print(pcall(function() return 1 & 1.5 end))
print(pcall(function() local a = "x" + 1 end))
print(pcall(string.format, "%d", 1.5))
print(pcall(setmetatable, 1, {}))
print(xpcall(function() error("inner") end, function(message) return "handled: " .. message end))
print(xpcall(function() error("a") end, function() error("b") end))
print((debug.traceback("trace", 1):gsub("%[C%].*", "[C]")))
for _, source in ipairs { "x = = 1", "goto nowhere", "for i = 1 do end", "local x <const> = 1; x = 2", "x = 'open", "return ...", "break", "x = }" } do
  print(select(2, load(source, "=chunk")))
end
for _ = 1, 20000 do pcall(error) end
local deep = function() end
for _ = 1, 150 do
  local inner = deep
  deep = function() local ok, message = pcall(inner); assert(ok, message) end
end
deep()
print(pcall(load, function() error("reader") end))
warn("@on")
warn("a ", "warning")
