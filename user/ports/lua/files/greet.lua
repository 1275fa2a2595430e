-- A module: `require` gives the table, once.
local greet = { loads = (greet_loads or 0) + 1 }
greet_loads = greet.loads
function greet.hello(name) return "hello " .. name end
return greet
