#include "terminal.h"

#include <curses.h>
#include <term.h>
#undef columns
#undef lines

#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kControlL = 'L' & 0x1f;
// If an answer is not complete after this time, the keys that were held back count as typed.
constexpr std::chrono::seconds kPatience{3};
constexpr int kEscapeDelay = 100;  // milliseconds within which all of a key's bytes arrive
constexpr int kMostRows = 500, kMostColumns = 1000;

// kAskEncoding writes a text at the start of row 2 and asks for the cursor's position. The text is
// one letter in UTF-8 and two letters in Latin-1, so the column shows the encoding. Row 1 is not
// used, because the answer could then be ESC [ 1 ; 2 R, which is also a key of xterm.
constexpr std::string_view kSaveCursor = "\0337";
constexpr std::string_view kAskEncoding = "\033[2;1H\xc3\xa9\033[6n";
constexpr std::string_view kAskSize = "\033[999;999H\033[6n\0338";

enum Pair : short { kRed = 1, kGreen, kCyan };

attr_t attribute_of(Style style) {
  const auto colour = [](short pair, attr_t otherwise) {
    return has_colors() ? static_cast<attr_t>(COLOR_PAIR(pair)) | A_BOLD : otherwise;
  };
  switch (style) {
    case Style::kPlain:
      return A_NORMAL;
    case Style::kBold:
      return A_BOLD;
    case Style::kDim:
      return has_colors() ? static_cast<attr_t>(COLOR_PAIR(kCyan)) : A_NORMAL;
    case Style::kBar:
      return A_REVERSE;
    case Style::kBarMarked:
      return A_BOLD | A_UNDERLINE;
    case Style::kGrows:
      return colour(kRed, A_BOLD);
    case Style::kTraced:
      return colour(kGreen, A_BOLD);
    case Style::kError:
      return colour(kRed, A_BOLD);
  }
  return A_NORMAL;
}

int meaning_of(int key) {
  switch (key) {
    case KEY_UP:
      return kUp;
    case KEY_DOWN:
      return kDown;
    case KEY_PPAGE:
      return kPageUp;
    case KEY_NPAGE:
      return kPageDown;
    case KEY_HOME:
    case KEY_FIND:
      return kHome;
    case KEY_END:
    case KEY_SELECT:
    case KEY_LL:
      return kEnd;
    case KEY_ENTER:
    case '\r':
    case '\n':
      return kEnter;
    case CursorReports::kEscape:
      return kEscape;
    case KEY_BACKSPACE:
    case '\b':
    case '\x7f':
      return kErase;
    case kControlL:
      return kRedraw;
    default:
      return key;
  }
}

// Writes to the terminal without ncurses. The output buffer of ncurses must be empty.
void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Returns the number of bytes of the UTF-8 text's first `columns` characters.
std::size_t bytes_of(std::string_view text, int columns) {
  for (std::size_t i = 0; i < text.size(); i++)
    if ((text[i] & 0xc0) != 0x80 && columns-- == 0) return i;
  return text.size();
}

}  // namespace

Terminal::Terminal(Glyphs most) : most_(most) {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
    throw std::runtime_error("this is no terminal: -b prints tables");
  const char* const name = std::getenv("TERM");
  // ncurses takes the character encoding from the locale. Only ASCII is written until the
  // terminal's answer has shown that it takes UTF-8.
  std::setlocale(LC_ALL, "C.UTF-8");
  if (name == nullptr || newterm(name, stdout, stdin) == nullptr)
    throw std::runtime_error("TERM=" + std::string(name != nullptr ? name : "") +
                             ": unknown terminal: try vt100, or -b prints tables");
  if (tigetstr("cup") == nullptr || tigetstr("clear") == nullptr) {
    endwin();
    throw std::runtime_error("TERM=" + std::string(name) +
                             ": the cursor cannot be placed: -b prints tables");
  }
  cbreak();
  noecho();
  nonl();
  intrflush(stdscr, FALSE);
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(kEscapeDelay);
  curs_set(0);
  if (has_colors()) {
    start_color();
    use_default_colors();
    init_pair(kRed, COLOR_RED, -1);
    init_pair(kGreen, COLOR_GREEN, -1);
    init_pair(kCyan, COLOR_CYAN, -1);
  }
  ask();
}

Terminal::~Terminal() {
  // Clears the last line, because the shell's prompt appears there if the terminal has no alternate
  // screen.
  move(LINES - 1, 0);
  clrtoeol();
  ::refresh();
  endwin();
}

int Terminal::rows() const {
  return LINES;
}
int Terminal::columns() const {
  return COLS;
}

void Terminal::ask() {
  clearok(curscr, TRUE);
  ::refresh();
  encoding_asked_ = most_ == Glyphs::kUtf8;
  write_out(kSaveCursor);
  if (encoding_asked_) write_out(kAskEncoding);
  write_out(kAskSize);
  reports_.expect(encoding_asked_ ? 2 : 1);
  asked_ = std::chrono::steady_clock::now();
}

void Terminal::take(CursorReports::Report report) {
  if (encoding_asked_) {
    encoding_asked_ = false;
    glyphs_ = report.column == 2 ? Glyphs::kUtf8 : Glyphs::kAscii;
    return;
  }
  if (report.row <= kMostRows && report.column <= kMostColumns)
    resize_term(report.row, report.column);
  // Relative cursor motions stop at the scroll margins. ncurses has set the margins for the old
  // size, so they are set again.
  if (change_scroll_region != nullptr) write_out(tparm(change_scroll_region, 0, LINES - 1));
  clearok(curscr, TRUE);  // kAskEncoding has left a letter on the screen
}

void Terminal::take_input() {
  std::vector<int> typed;
  for (int next; (next = getch()) != ERR;)
    if (const auto report = reports_.take(next, typed)) take(*report);
  if (asking() && std::chrono::steady_clock::now() - asked_ >= kPatience) reports_.drop(typed);
  typed_.insert(typed_.end(), typed.begin(), typed.end());
}

std::optional<int> Terminal::key() {
  if (typed_.empty()) take_input();
  if (typed_.empty()) return {};
  const int key = typed_.front();
  typed_.pop_front();
  return meaning_of(key);
}

void Terminal::clear() {
  erase();
}

void Terminal::put(int row, int column, std::string_view text, Style style) {
  if (row < 0 || row >= LINES || column < 0 || column >= COLS) return;
  const std::size_t bytes = bytes_of(text, COLS - column);
  attrset(static_cast<int>(attribute_of(style)));
  mvaddnstr(row, column, text.data(), static_cast<int>(bytes));
  attrset(A_NORMAL);
}

void Terminal::put_line(int row, std::string_view text, Style style) {
  const auto width = static_cast<std::size_t>(COLS);
  std::string line(text.substr(0, bytes_of(text, COLS)));
  const auto columns = static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  line.append(width - std::min(columns, width), ' ');
  put(row, 0, line, style);
}

void Terminal::show() {
  move(LINES - 1, 0);
  ::refresh();
}
