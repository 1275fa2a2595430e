-- Patterns, formats, packing, UTF-8, numbers to text and back.
assert(("key = value"):match("^(%w+)%s*=%s*(%w+)$") == "key")
assert(("THE (quick) fox"):find("%((%a+)%)") == 5)
assert(("hello world"):gsub("o", { o = "0" }) == "hell0 w0rld")
assert(("abc"):gsub("%w", "%0%0") == "aabbcc")
assert(("x"):rep(3, ",") == "x,x,x" and ("abc"):byte(-1) == 99 and ("abc"):reverse() == "cba")
assert(("%q"):format('a\n"b"\0c') == '"a\\\n\\"b\\"\\0c"')
assert(("%bxy"):len() == 4 and ("f(a(b)c)d"):match("%b()") == "(a(b)c)")
assert(("THE (quick) fox"):gsub("%f[%a]%a+", string.lower) == "the (quick) fox")
assert(string.pack("<i4 >i2 z s1", -2, 258, "zero", "counted") == "\xfe\xff\xff\xff\1\2zero\0\7counted")
assert(select("#", string.unpack("<d n j", string.pack("<d n j", 1.5, -0.25, math.mininteger))) == 4)
assert(utf8.char(72, 228, 8364, 0x10FFFF) == "Hä€\u{10FFFF}" and utf8.len("Hä€") == 3 and not utf8.len("\xff"))
for position, code in utf8.codes("aä€") do print(position, code) end
for _, number in ipairs { 0.1, 1e15, 1e16, 2^53, -0.0, 1 / 3, 1e-300, 123456789012345678, 0x7fffffffffffffff, 3 // 2, 3.0 // 2, 7 % -3 } do
  print(number, ("%.14g|%5.2f|%e|%a"):format(number, number, number, number))
end
assert(tostring(1 / 0) == "inf" and tostring(0 / 0):find("nan"))
assert(tonumber("0x1p4") == 16 and tonumber("10", 36) == 36 and tonumber("  12  ") == 12 and not tonumber("1e") and "10" + 5 == 15)
assert(math.type(3) == "integer" and math.type(3.0) == "float" and 1 == 1.0 and math.ult(1, -1))
assert(5 // 0.0 == math.huge and not pcall(function() return 5 // 0 end))
assert(0xff >> 4 == 15 and ~0 == -1 and 1 << 63 == math.mininteger and 1 << 64 == 0)
local long = ("ab"):rep(200000)
assert(#long == 400000 and select(2, long:gsub("ab", "")) == 200000)
print(("done"):upper())
