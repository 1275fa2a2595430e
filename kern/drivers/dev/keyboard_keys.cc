#include "drivers/dev/keyboard_keys.h"

#include <algorithm>

namespace {

enum Modifier : uint8_t {
  kLeftShift = 1,
  kRightShift = 2,
  kLeftControl = 4,
  kRightControl = 8,
  kLeftAlt = 16,
  kRightAlt = 32,
  kShift = kLeftShift | kRightShift,
  kControl = kLeftControl | kRightControl,
  kAlt = kLeftAlt | kRightAlt,
};

constexpr uint8_t kReleased = 0x80, kExtendedPrefix = 0xe0, kPausePrefix = 0xe1;
constexpr uint8_t kPauseCodes = 2;  // codes after each of the pause key's prefixes
constexpr char kEscape = 0x1b, kDelete = 0x7f;

constexpr uint8_t kControlKey = 0x1d, kLeftShiftKey = 0x2a, kRightShiftKey = 0x36, kAltKey = 0x38,
                  kCapsLockKey = 0x3a, kNumLockKey = 0x45, kKeypad = 0x47, kKeypadEnd = 0x53;
constexpr uint8_t kSlashKey = 0x35, kEnterKey = 0x1c, kTabKey = 0x0f;

// The characters of the keys 0x00 to 0x39, without and with shift; NUL: none. ISO keyboards have
// one more key (0x56), for the backslash.
constexpr char kPlain[] =
    "\0\0331234567890-=\177\tqwertyuiop[]\r\0asdfghjkl;'`\0\\zxcvbnm,./\0*\0 ";
constexpr char kShifted[] =
    "\0\033!@#$%^&*()_+\177\tQWERTYUIOP{}\r\0ASDFGHJKL:\"~\0|ZXCVBNM<>?\0*\0 ";
constexpr uint8_t kTableEnd = 0x3a, kIsoKey = 0x56;
static_assert(sizeof kPlain == kTableEnd + 1 && sizeof kShifted == kTableEnd + 1);

// The keypad, and the keys between it and the letters, which have the same numbers after a prefix.
constexpr char kDigits[] = "789-456+1230.";
constexpr std::string_view kMoves[] = {"\033[H",  "\033[A",  "\033[5~", "-",      "\033[D",
                                       "",        "\033[C",  "+",       "\033[F", "\033[B",
                                       "\033[6~", "\033[2~", "\033[3~"};
static_assert(sizeof kDigits - 1 == std::size(kMoves) &&
              std::size(kMoves) == kKeypadEnd - kKeypad + 1);

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns the character that a key sends while control is down, as on a VT220.
char with_control(char c) {
  if (c >= '@' && c <= '~') return static_cast<char>(c & 0x1f);
  if (c == ' ' || c == '2') return '\0';
  if (c == '/' || c == '-') return 0x1f;
  if (c == '6') return 0x1e;
  if (c == '?') return kDelete;
  return c;
}

}  // namespace

void Keyboard::hold(uint8_t modifier, bool down) {
  held_ = static_cast<uint8_t>(down ? held_ | modifier : held_ & ~modifier);
}

// Returns `bytes`, after ESC if alt is down.
std::string_view Keyboard::sent(std::string_view bytes) {
  size_t size = 0;
  if ((held_ & kAlt) && !bytes.empty()) bytes_[size++] = kEscape;
  size += bytes.copy(bytes_ + size, sizeof bytes_ - size);
  return {bytes_, size};
}

std::string_view Keyboard::typed(char byte) {
  if (held_ & kControl) byte = with_control(byte);
  return sent({&byte, 1});
}

std::string_view Keyboard::moved(std::string_view bytes) {
  constexpr std::string_view kIntroducer = "\033[";
  const char last = bytes.empty() ? '\0' : bytes.back();
  if (!moves_send_o_ || !bytes.starts_with(kIntroducer) || !is_letter(last)) return sent(bytes);
  const char changed[] = {kEscape, 'O', last};
  return sent({changed, sizeof changed});
}

std::string_view Keyboard::take(uint8_t code, bool moves_send_o) {
  moves_send_o_ = moves_send_o;
  if (skip_ > 0) {
    --skip_;
    return {};
  }
  if (code == kPausePrefix) {
    skip_ = kPauseCodes;
    return {};
  }
  if (code == kExtendedPrefix) {
    extended_ = true;
    return {};
  }
  const bool extended = extended_;
  extended_ = false;
  const bool down = !(code & kReleased);
  const uint8_t key = code & ~kReleased;
  if (key == kControlKey) {
    hold(extended ? kRightControl : kLeftControl, down);
  } else if (key == kAltKey) {
    hold(extended ? kRightAlt : kLeftAlt, down);
  } else if (key == kLeftShiftKey || key == kRightShiftKey) {
    // A keyboard puts extended shift codes around the keys between keypad and letters.
    if (!extended) hold(key == kLeftShiftKey ? kLeftShift : kRightShift, down);
  } else if (down) {
    return extended ? press_extended(key) : press(key);
  }
  return {};
}

std::string_view Keyboard::press(uint8_t key) {
  const bool shift = held_ & kShift;
  if (key == kCapsLockKey) {
    caps_lock_ = !caps_lock_;
  } else if (key == kNumLockKey) {
    num_lock_ = !num_lock_;
  } else if (key >= kKeypad && key <= kKeypadEnd) {
    if (num_lock_ != shift) return typed(kDigits[key - kKeypad]);
    return moved(kMoves[key - kKeypad]);
  } else if (key == kIsoKey) {
    return typed(shift ? '|' : '\\');
  } else if (key == kTabKey && shift) {
    return sent("\033[Z");
  } else if (key < kTableEnd && kPlain[key] != '\0') {
    const bool upper = shift != (caps_lock_ && is_letter(kPlain[key]));
    return typed(upper ? kShifted[key] : kPlain[key]);
  }
  return {};
}

std::string_view Keyboard::press_extended(uint8_t key) {
  if (key == kEnterKey) return typed('\r');
  if (key == kSlashKey) return typed('/');
  constexpr uint8_t kNotExtended[] = {0x4a, 0x4c, 0x4e};  // of the keypad: minus, 5, plus
  if (key < kKeypad || key > kKeypadEnd ||
      std::ranges::find(kNotExtended, key) != std::end(kNotExtended))
    return {};
  return moved(kMoves[key - kKeypad]);
}
