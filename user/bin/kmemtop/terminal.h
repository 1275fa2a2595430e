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

// While a Terminal exists, the terminal shows the grid and does not echo keys. The destructor
// restores the terminal. Only one object may exist at a time.
class Terminal {
 public:
  // `most`: kAscii to use ASCII on any terminal, kUtf8 to use UTF-8 if the terminal takes it.
  // Throws std::runtime_error if standard input or output is no terminal. Also throws if the
  // terminal type in TERM is unknown, or cannot place the cursor or clear the screen.
  explicit Terminal(Glyphs most);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  int rows() const;
  int columns() const;
  Glyphs glyphs() const { return glyphs_; }

  // Asks the terminal for its size, and with `most` kUtf8 for its encoding. Redraws everything.
  void ask();
  // True if an answer of the terminal may still come.
  bool asking() const { return reports_.expecting(); }
  // Reads the input: applies the terminal's answers, and stores typed keys for key().
  void take_input();
  // Takes the next typed key: a character, a Key, or for any other key the code of ncurses. Returns
  // nothing if no key was typed.
  std::optional<int> key();

  // clear() makes the grid blank, put() writes text to the grid, and show() sends the grid to the
  // terminal. Text beyond the grid is cut.
  void clear();
  void put(int row, int column, std::string_view text, Style style = Style::kPlain);
  // Writes the text in one style and fills the rest of the row with blanks.
  void put_line(int row, std::string_view text, Style style);
  void show();

 private:
  void take(CursorReports::Report report);

  const Glyphs most_;
  Glyphs glyphs_ = Glyphs::kAscii;
  bool encoding_asked_ = false;  // true: the next answer is to kAskEncoding, not to kAskSize
  CursorReports reports_;
  std::chrono::steady_clock::time_point asked_;
  std::deque<int> typed_;
};
