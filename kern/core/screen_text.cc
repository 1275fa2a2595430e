#include "core/screen_text_impl.h"

#include <algorithm>

namespace {

constexpr uint8_t kBackspace = '\b', kTab = '\t', kEscapeByte = 0x1b, kCancel = 0x18,
                  kSubstitute = 0x1a, kBell = 0x07;
constexpr unsigned kTabWidth = 8;
constexpr uint8_t kBright = 0x08;
// VGA's number of each of the eight colours of ESC [ 30 m: VGA has blue as bit 0, red as bit 2.
constexpr uint8_t kVgaColours[8] = {0, 4, 2, 6, 1, 5, 3, 7};

}  // namespace

void ScreenText::init(ScreenCell* cells, unsigned columns, unsigned rows) {
  cells_ = cells;
  columns_ = columns;
  rows_ = rows;
  reset();
}

void ScreenText::reset() {
  cursor_ = saved_ = {};
  cursor_hidden_ = cursor_keys_send_o_ = at_edge_ = bold_ = inverse_ = false;
  foreground_ = kNormal;
  background_ = 0;
  erase({0, 0}, {rows_, 0});
}

void ScreenText::write(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) take(static_cast<uint8_t>(data[i]));
}

// Accepts any row and column, because an interrupted call may have left values that do not fit
// together.
ScreenCell& ScreenText::cell(unsigned row, unsigned column) const {
  return cells_[(top_ + row) % rows_ * columns_ + std::min(column, columns_ - 1)];
}

ScreenCell ScreenText::shown(unsigned row, unsigned column) const {
  const ScreenCell at = cell(row, column);
  if (cursor_hidden_ || row != cursor_.row || column != cursor_.column) return at;
  return static_cast<ScreenCell>((at & 0xff) | (at >> 8 & 7) << 12 | (at >> 12 & 7) << 8);
}

ScreenCell ScreenText::blank() const {
  return static_cast<ScreenCell>(' ' | background_ << 12 | kNormal << 8);
}

void ScreenText::take(uint8_t byte) {
  if (byte == kCancel || byte == kSubstitute) {
    state_ = State::kText;
    return;
  }
  if (byte == kEscapeByte && state_ != State::kString) {
    state_ = State::kEscape;
    return;
  }
  switch (state_) {
    case State::kText:
      return byte < ' ' ? control(byte) : show(byte);
    case State::kEscape:
      return escape(byte);
    case State::kSkipOne:
      state_ = State::kText;
      return;
    case State::kSequence:
      return byte < ' ' ? control(byte) : sequence(byte);
    case State::kString:
      if (byte == kBell) state_ = State::kText;
      if (byte == kEscapeByte) state_ = State::kStringEscape;
      return;
    case State::kStringEscape:
      state_ = byte == '\\' ? State::kText : State::kString;
      return;
  }
}

void ScreenText::show(uint8_t character) {
  if (character == 0x7f || (character & 0xc0) == 0x80) return;  // DEL; inside a UTF-8 character
  if (character >= 0x80) character = kUnknown;
  if (at_edge_) {
    move_to(cursor_.row, 0);
    line_feed();
  }
  const uint8_t front = foreground_ | (bold_ ? kBright : 0);
  const unsigned colours =
      inverse_ ? background_ | (foreground_ & 7) << 4 : front | background_ << 4;
  cell(cursor_.row, cursor_.column) = static_cast<ScreenCell>(character | colours << 8);
  if (cursor_.column + 1 < columns_) {
    ++cursor_.column;
  } else {
    at_edge_ = true;
  }
}

void ScreenText::control(uint8_t byte) {
  switch (byte) {
    case kBackspace:
      return move_to(cursor_.row, cursor_.column > 0 ? cursor_.column - 1 : 0);
    case kTab:
      return move_to(cursor_.row, (cursor_.column / kTabWidth + 1) * kTabWidth);
    case '\n':
    case '\v':
    case '\f':
      return line_feed();
    case '\r':
      return move_to(cursor_.row, 0);
  }
}

void ScreenText::escape(uint8_t byte) {
  state_ = State::kText;
  switch (byte) {
    case '[':
      state_ = State::kSequence;
      private_ = false;
      parameter_count_ = 0;
      parameters_[0] = 0;
      return;
    case ']':
    case 'P':
    case '^':
    case '_':
      state_ = State::kString;
      return;
    case '(':
    case ')':
    case '#':
    case '%':
      state_ = State::kSkipOne;
      return;
    case '7':
      saved_ = cursor_;
      return;
    case '8':
      return move_to(saved_.row, saved_.column);
    case 'D':
      return line_feed();
    case 'E':
      move_to(cursor_.row, 0);
      return line_feed();
    case 'M':
      return reverse_line_feed();
    case 'c':
      return reset();
  }
}

void ScreenText::sequence(uint8_t byte) {
  unsigned& current = parameters_[std::min(parameter_count_, kMaxParameters - 1)];
  if (byte >= '0' && byte <= '9') {
    current = std::min(current * 10 + (byte - '0'), kLargestParameter);
  } else if (byte == ';') {
    if (parameter_count_ + 1 < kMaxParameters) parameters_[++parameter_count_] = 0;
  } else if (byte >= '<' && byte <= '?') {
    private_ = true;
  } else if (byte >= '@') {
    state_ = State::kText;
    finish(byte);
  }
}

// A parameter that is missing or 0 has the value `otherwise`.
unsigned ScreenText::parameter(unsigned index, unsigned otherwise) const {
  return index <= parameter_count_ && parameters_[index] != 0 ? parameters_[index] : otherwise;
}

void ScreenText::finish(uint8_t command) {
  if (private_) {
    if (command == 'h' || command == 'l') set_mode(parameter(0, 0), command == 'h');
    return;
  }
  const unsigned count = parameter(0, 1), row = cursor_.row, column = cursor_.column;
  switch (command) {
    case 'A':
      return move_to(row > count ? row - count : 0, column);
    case 'B':
      return move_to(row + count, column);
    case 'C':
      return move_to(row, column + count);
    case 'D':
      return move_to(row, column > count ? column - count : 0);
    case 'E':
      return move_to(row + count, 0);
    case 'F':
      return move_to(row > count ? row - count : 0, 0);
    case 'G':
      return move_to(row, count - 1);
    case 'd':
      return move_to(count - 1, column);
    case 'H':
    case 'f':
      return move_to(count - 1, parameter(1, 1) - 1);
    case 'J':
      return erase_screen(parameter(0, 0));
    case 'K':
      return erase_line(parameter(0, 0));
    case 'L':
      return insert_lines(count);
    case 'M':
      return delete_lines(count);
    case 'P':
      return delete_characters(count);
    case '@':
      return insert_characters(count);
    case 'X':
      return erase({row, column}, {row, std::min(column + count, columns_)});
    case 'm':
      return colours();
    case 's':
      saved_ = cursor_;
      return;
    case 'u':
      return move_to(saved_.row, saved_.column);
  }
}

void ScreenText::set_mode(unsigned mode, bool on) {
  if (mode == 1) cursor_keys_send_o_ = on;
  if (mode == 25) cursor_hidden_ = !on;
}

void ScreenText::move_to(unsigned row, unsigned column) {
  cursor_ = {std::min(row, rows_ - 1), std::min(column, columns_ - 1)};
  at_edge_ = false;
}

void ScreenText::line_feed() {
  at_edge_ = false;
  if (cursor_.row + 1 < rows_) {
    ++cursor_.row;
    return;
  }
  top_ = (top_ + 1) % rows_;
  erase({rows_ - 1, 0}, {rows_, 0});
}

void ScreenText::reverse_line_feed() {
  at_edge_ = false;
  if (cursor_.row > 0) {
    --cursor_.row;
    return;
  }
  top_ = (top_ + rows_ - 1) % rows_;
  erase({0, 0}, {1, 0});
}

// Erases the cells from `from` up to, but not including, `end`, in the order of reading.
void ScreenText::erase(Place from, Place end) {
  const ScreenCell empty = blank();
  const unsigned last = std::min(end.row * columns_ + end.column, rows_ * columns_);
  for (unsigned i = from.row * columns_ + from.column; i < last; ++i)
    cell(i / columns_, i % columns_) = empty;
}

void ScreenText::erase_screen(unsigned what) {
  at_edge_ = false;
  if (what == 0) erase(cursor_, {rows_, 0});
  if (what == 1) erase({0, 0}, {cursor_.row, cursor_.column + 1});
  if (what == 2 || what == 3) erase({0, 0}, {rows_, 0});
}

void ScreenText::erase_line(unsigned what) {
  at_edge_ = false;
  const unsigned row = cursor_.row;
  if (what == 0) erase(cursor_, {row + 1, 0});
  if (what == 1) erase({row, 0}, {row, cursor_.column + 1});
  if (what == 2) erase({row, 0}, {row + 1, 0});
}

void ScreenText::insert_lines(unsigned count) {
  const unsigned first = std::min(cursor_.row, rows_);
  count = std::min(count, rows_ - first);
  for (unsigned row = rows_; row-- > first + count;) {
    for (unsigned i = 0; i < columns_; ++i) cell(row, i) = cell(row - count, i);
  }
  erase({first, 0}, {first + count, 0});
  move_to(first, 0);
}

void ScreenText::delete_lines(unsigned count) {
  const unsigned first = std::min(cursor_.row, rows_);
  count = std::min(count, rows_ - first);
  for (unsigned row = first; row + count < rows_; ++row) {
    for (unsigned i = 0; i < columns_; ++i) cell(row, i) = cell(row + count, i);
  }
  erase({rows_ - count, 0}, {rows_, 0});
  move_to(first, 0);
}

void ScreenText::insert_characters(unsigned count) {
  const unsigned row = cursor_.row, first = std::min(cursor_.column, columns_);
  count = std::min(count, columns_ - first);
  for (unsigned i = columns_; i-- > first + count;) cell(row, i) = cell(row, i - count);
  erase({row, first}, {row, first + count});
}

void ScreenText::delete_characters(unsigned count) {
  const unsigned row = cursor_.row, first = std::min(cursor_.column, columns_);
  count = std::min(count, columns_ - first);
  for (unsigned i = first; i + count < columns_; ++i) cell(row, i) = cell(row, i + count);
  erase({row, columns_ - count}, {row + 1, 0});
}

void ScreenText::colours() {
  for (unsigned i = 0; i <= parameter_count_; ++i) colour(parameters_[i]);
}

void ScreenText::colour(unsigned code) {
  switch (code) {
    case 0:
      foreground_ = kNormal;
      background_ = 0;
      bold_ = inverse_ = false;
      return;
    case 1:
      bold_ = true;
      return;
    case 22:
      bold_ = false;
      return;
    case 7:
    case 27:
      inverse_ = code == 7;
      return;
    case 39:
      foreground_ = kNormal;
      return;
    case 49:
      background_ = 0;
      return;
  }
  if (code >= 30 && code <= 37) foreground_ = kVgaColours[code - 30];
  if (code >= 40 && code <= 47) background_ = kVgaColours[code - 40];
}
