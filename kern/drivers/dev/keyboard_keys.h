// The keys of a PC keyboard: turns scan codes into a terminal's bytes.
#pragma once

#include <cstdint>
#include <string_view>

// Scan code set 1, US layout. Shift, control and caps lock work as usual; alt puts ESC before the
// key's bytes. Enter sends CR and backspace DEL. The arrows, home, end, insert, delete, page up and
// page down send a VT100's or VT220's sequences. Num lock is on at the start. Other keys, and scan
// codes that no key has, send nothing.
class Keyboard {
 public:
  // Takes one scan code. Returns the bytes to send, which are valid until the next call.
  // With `moves_send_o` the arrows, home and end send ESC O in place of ESC [.
  std::string_view take(uint8_t code, bool moves_send_o = false);

 private:
  std::string_view press(uint8_t key);
  std::string_view press_extended(uint8_t key);
  std::string_view typed(char byte);
  std::string_view sent(std::string_view bytes);
  std::string_view moved(std::string_view bytes);
  void hold(uint8_t modifier, bool down);

  uint8_t held_ = 0;  // modifiers that are down
  bool caps_lock_ = false, num_lock_ = true;
  bool extended_ = false;  // the last code was the prefix of an extended key
  bool moves_send_o_ = false;
  uint8_t skip_ = 0;  // codes of the pause key still to come
  char bytes_[8] = {};
};
