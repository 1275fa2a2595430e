// The table of sources, on the screen.
#pragma once

#include <string>
#include <vector>

#include "arguments.h"
#include "sources.h"
#include "terminal.h"

// The visible part of the table, and the chosen line. Until the user moves the cursor, the top line
// is chosen. After a move, the cursor stays on the chosen source even if the order of the lines
// changes.
class Cursor {
 public:
  // The line of `rows` that the cursor is on, from 0 on; `rows` may be empty.
  std::size_t line(const std::vector<const Source*>& rows) const;
  // Moves the cursor by `by` lines, but not beyond the first or last line.
  void move(const std::vector<const Source*>& rows, long by);
  void to_top() { name_.clear(); }
  void to_end(const std::vector<const Source*>& rows) {
    move(rows, static_cast<long>(rows.size()));
  }
  // Scrolls so that the cursor is on one of the `height` visible lines, and returns the index of
  // the first visible line.
  std::size_t first_shown(const std::vector<const Source*>& rows, std::size_t height);

 private:
  std::string name_;                  // name of the chosen source; empty: the top line is chosen
  std::size_t last_ = 0, first_ = 0;  // indices: the last chosen line; the first visible line
};

// Rows of the screen that show no source: title, heading, messages, keys.
constexpr int kRowsAround = 4;

// Draws the heading and the sources, from row 1 on.
void draw_table(Terminal& terminal, const std::vector<const Source*>& rows, Cursor& cursor,
                std::size_t longest_name, SortKey key);
