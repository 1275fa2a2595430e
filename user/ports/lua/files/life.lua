-- Conway's life on a torus: an R-pentomino after 200 steps.
local size, cells = 64, {}
for _, at in ipairs { { 32, 31 }, { 33, 31 }, { 31, 32 }, { 32, 32 }, { 32, 33 } } do cells[at[2] * size + at[1]] = true end
for _ = 1, 200 do
  local around = {}
  for cell in pairs(cells) do
    local x, y = cell % size, cell // size
    for dy = -1, 1 do
      for dx = -1, 1 do
        if dx ~= 0 or dy ~= 0 then
          local neighbour = (y + dy) % size * size + (x + dx) % size
          around[neighbour] = (around[neighbour] or 0) + 1
        end
      end
    end
  end
  local next_cells = {}
  for cell, n in pairs(around) do
    if n == 3 or n == 2 and cells[cell] then next_cells[cell] = true end
  end
  cells = next_cells
end
for y = 0, size - 1 do
  local row = {}
  for x = 0, size - 1 do row[#row + 1] = cells[y * size + x] and "#" or "." end
  print(table.concat(row))
end
