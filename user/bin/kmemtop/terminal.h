// The terminal as a grid of characters: the only interface to ncurses.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string_view>

#include "cursor_reports.h"
#include "format.h"

enum class Style { kPlain, kBold, kDim, kBar, kBarMarked, kGrows, kTraced, kError };

// Keys that are no characters.
enum Key { kUp = 0x1000, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kErase, kRedraw };

// From its construction to its end the terminal shows the grid and echoes nothing; then it is
// restored. One at a time.
class Terminal {
 public:
  // std::runtime_error if standard input or output is no terminal, or if the terminal that TERM
  // names is unknown or cannot place its cursor.
  explicit Terminal(Glyphs most);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  int rows() const;
  int columns() const;
  Glyphs glyphs() const { return glyphs_; }

  // Asks the terminal for its size and encoding, and redraws everything.
  void ask();
  // May an answer still come?
  bool asking() const { return reports_.expecting(); }
  // Reads the input: applies answers, keeps keys.
  void take_input();
  // A key that has been typed, as its character or a Key. Nothing if there is none now.
  std::optional<int> key();

  // The grid is blank; then put() writes on it, and show() brings it to the terminal. Text
  // beyond the grid is cut.
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
