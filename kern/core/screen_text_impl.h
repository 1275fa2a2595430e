// The text on a screen: interprets the bytes of a terminal's output, and keeps the characters that
// the screen shows. Does not draw (screen.cc).
//
// Understands a subset of the VT100, which is what the console's TERM promises and what mksh, vi
// and kmemtop send: the control characters BS, HT, LF and CR; ESC 7, ESC 8, ESC M, ESC c; and,
// after ESC [, the final characters A B C D E F G H f d (cursor), J K L M P @ X (erase, insert,
// delete), m (colours), s and u; and the modes ? 1 and ? 25. Anything else is ignored, without its
// text appearing on the screen. A character that is not ASCII appears as kUnknown.
//
// The last line moves into the next one as on a VT100: a character in the last column leaves the
// cursor there, and the next character begins a new line.
#pragma once

#include <cstddef>
#include <cstdint>

// A character and its colours, in the format of VGA text memory: the character in the low byte, in
// the high byte the foreground (4 bits) and the background (3 bits).
using ScreenCell = uint16_t;

class ScreenText {
 public:
  static constexpr unsigned kMinColumns = 20, kMinRows = 4, kMaxColumns = 240, kMaxRows = 135;
  static constexpr uint8_t kUnknown = 0x7f;

  constexpr ScreenText() = default;
  // `cells` has columns * rows elements, and stays in use. Clears the screen. Both numbers are
  // between the limits above.
  void init(ScreenCell* cells, unsigned columns, unsigned rows);
  // Any context. If the call interrupts another one, or runs together with it, some characters may
  // be wrong, but no access leaves the array.
  void write(const char* data, size_t size);

  unsigned columns() const { return columns_; }
  unsigned rows() const { return rows_; }
  // True after ESC [ ? 1 h: the keys that move the cursor shall send ESC O in place of ESC [.
  bool cursor_keys_send_o() const { return cursor_keys_send_o_; }
  // The cell as it shall appear: at the cursor, the colours are exchanged.
  ScreenCell shown(unsigned row, unsigned column) const;

 private:
  static constexpr unsigned kMaxParameters = 8;
  static constexpr unsigned kLargestParameter = 9999;
  static constexpr uint8_t kNormal = 0x07;
  enum class State : uint8_t { kText, kEscape, kSkipOne, kSequence, kString, kStringEscape };
  struct Place {
    unsigned row = 0, column = 0;
  };

  ScreenCell& cell(unsigned row, unsigned column) const;
  ScreenCell blank() const;
  void take(uint8_t byte);
  void show(uint8_t character);
  void control(uint8_t byte);
  void escape(uint8_t byte);
  void sequence(uint8_t byte);
  void finish(uint8_t command);
  void set_mode(unsigned mode, bool on);
  void move_to(unsigned row, unsigned column);
  void line_feed();
  void reverse_line_feed();
  void reset();
  void erase(Place from, Place end);
  void erase_screen(unsigned what);
  void erase_line(unsigned what);
  void insert_lines(unsigned count);
  void delete_lines(unsigned count);
  void insert_characters(unsigned count);
  void delete_characters(unsigned count);
  void colours();
  void colour(unsigned code);
  unsigned parameter(unsigned index, unsigned otherwise) const;

  ScreenCell* cells_ = nullptr;
  unsigned columns_ = 0, rows_ = 0;
  unsigned top_ = 0;  // where the first row lies in `cells_`; the rows form a ring
  Place cursor_{}, saved_{};
  bool cursor_hidden_ = false, cursor_keys_send_o_ = false;
  bool at_edge_ = false;  // the next character begins a new line
  uint8_t foreground_ = kNormal, background_ = 0;
  bool bold_ = false, inverse_ = false;

  State state_ = State::kText;
  bool private_ = false;  // the sequence began with ESC [ ?
  unsigned parameters_[kMaxParameters] = {};
  unsigned parameter_count_ = 0;
};
