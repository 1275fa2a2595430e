// The table of sources, on the screen.
#pragma once

#include <string>
#include <vector>

#include "arguments.h"
#include "sources.h"
#include "terminal.h"

// The visible part of a list, and the chosen line. Until the user moves the cursor it stays at the
// top; then it follows its source.
class Cursor {
 public:
  // The line of `rows` that the cursor is on, from 0 on; `rows` may be empty.
  std::size_t line(const std::vector<const Source*>& rows) const;
  // By so many lines, as far as there are lines.
  void move(const std::vector<const Source*>& rows, long by);
  void to_top() { name_.clear(); }
  void to_end(const std::vector<const Source*>& rows) {
    move(rows, static_cast<long>(rows.size()));
  }
  // The first visible line, such that the cursor's is among `height`.
  std::size_t first_shown(const std::vector<const Source*>& rows, std::size_t height);

 private:
  std::string name_;  // empty: at the top
  std::size_t last_ = 0, first_ = 0;
};

// Rows of the screen that are no sources: title, heading, messages, keys.
constexpr int kRowsAround = 4;

// From row 1 on: the heading and the sources.
void draw_table(Terminal& terminal, const std::vector<const Source*>& rows, Cursor& cursor,
                std::size_t longest_name, SortKey key);
