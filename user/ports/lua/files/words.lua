-- Counts the words of this folder's programs through a pipe.
local counts, order = {}, {}
for word in assert(io.popen("cat greet.lua io.lua os.lua gc.lua")):read("a"):gmatch("%a+") do
  if not counts[word] then order[#order + 1] = word end
  counts[word] = (counts[word] or 0) + 1
end
table.sort(order, function(a, b) return counts[a] > counts[b] or counts[a] == counts[b] and a < b end)
for i = 1, 20 do print(order[i], counts[order[i]]) end
