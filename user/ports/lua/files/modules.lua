-- require, package.path, preload, load with environments, dumped functions, no dynamic libraries.
local greet = require "greet"
assert(require "greet" == greet and greet.loads == 1 and package.loaded.greet == greet)
print(greet.hello("lua"), select(2, require "greet"))
package.preload.virtual = function(name, extra) return { name = name, extra = extra } end
print(require("virtual").name, require("virtual").extra)
local ok, message = pcall(require, "no.such.module")
print(ok, message:match("^[^\n]*"), message:find("no/such/module.lua", 1, true) ~= nil)
print(package.searchpath("greet", "./?.lua;./?/init.lua"), package.config:sub(1, 1))
local environment = { print = print }
print(load("x = 1; y = x + 1; return x, y", "chunk", "t", environment)(), environment.y, x)
local function counter(start) return function() start = start + 1 return start end end
local copy = assert(load(string.dump(counter, true), "dumped", "b"))
print(copy(10)())
print(load(string.dump(counter), "dumped", "t"))
local library, why, where = package.loadlib("./no.such.so", "open")
assert(library == nil and type(why) == "string" and (where == "open" or where == "absent"))
print(pcall(dofile, "absent.lua"))
print(_VERSION, #arg, arg[0])
