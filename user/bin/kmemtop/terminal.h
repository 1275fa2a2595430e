// The terminal as a grid of characters: all that kmemtop has to do with ncurses.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string_view>

#include "cursor_reports.h"
#include "format.h"

enum class Style { kPlain, kBold, kDim, kBar, kBarMarked, kGrows, kTraced, kError };

// What a key means that is no character.
enum Key { kUp = 0x1000, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kErase, kRedraw };

// From its construction to its end the terminal shows the grid and echoes nothing; then it is as it
// was. One at a time.
class Terminal {
 public:
  // std::runtime_error if standard input or output is none, or the terminal that TERM names is
  // unknown or cannot place its cursor.
  explicit Terminal(Glyphs most);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  int rows() const;
  int columns() const;
  Glyphs glyphs() const { return glyphs_; }

  // Asks the terminal how large it is and what it can show, and draws all of it afresh.
  void ask();
  // Whether an answer may still come.
  bool asking() const { return reports_.expecting(); }
  // Takes what has come in: answers are obeyed, keys kept.
  void take_input();
  // A key that has been typed, as its character or a Key. Nothing if there is none now.
  std::optional<int> key();

  // The grid is blank; then put() writes on it, and show() brings it to the terminal. What is
  // beyond the grid is left out.
  void clear();
  void put(int row, int column, std::string_view text, Style style = Style::kPlain);
  // A whole line in one style.
  void put_line(int row, std::string_view text, Style style);
  void show();

 private:
  void take(CursorReports::Report report);

  const Glyphs most_;
  Glyphs glyphs_ = Glyphs::kAscii;
  bool encoding_asked_ = false;  // the next answer is the first of two
  CursorReports reports_;
  std::chrono::steady_clock::time_point asked_;
  std::deque<int> typed_;
};
