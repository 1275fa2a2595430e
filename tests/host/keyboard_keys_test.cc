// Tests drivers/dev/keyboard_keys.h, which turns a keyboard's scan codes into a terminal's bytes.
#include "drivers/dev/keyboard_keys.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <string>

namespace {

using Codes = std::initializer_list<int>;

constexpr int kControl = 0x1d, kShift = 0x2a, kRightShift = 0x36, kAlt = 0x38, kCapsLock = 0x3a,
              kNumLock = 0x45, kUp = 0x80, kA = 0x1e, kC = 0x2e, kOne = 0x02, kExtended = 0xe0;

std::string take(Keyboard& keyboard, Codes codes) {
  std::string bytes;
  for (const int code : codes) bytes += keyboard.take(static_cast<uint8_t>(code));
  return bytes;
}

std::string typed(Codes codes) {
  Keyboard keyboard;
  return take(keyboard, codes);
}

TEST(KeyboardKeys, PlainKeys) {
  EXPECT_EQ(typed({kA, kA | kUp, kC, kC | kUp, kOne, 0x39, 0x1c, 0x0e, 0x0f, 0x01}),
            "ac1 \r\177\t\033");
  EXPECT_EQ(typed({0x29, 0x0c, 0x0d, 0x1a, 0x1b, 0x27, 0x28, 0x2b, 0x33, 0x34, 0x35, 0x56}),
            "`-=[];'\\,./\\");
}

TEST(KeyboardKeys, ShiftHoldsUntilBothAreUp) {
  EXPECT_EQ(typed({kShift, kA, kOne, kShift | kUp, kA}), "A!a");
  EXPECT_EQ(typed({kShift, kRightShift, kShift | kUp, kA, kRightShift | kUp, kA}), "Aa");
}

TEST(KeyboardKeys, CapsLockIsForLetters) {
  EXPECT_EQ(
      typed({kCapsLock, kCapsLock | kUp, kA, kOne, kShift, kA, kOne, kShift | kUp, kCapsLock, kA}),
      "A1a!a");
}

TEST(KeyboardKeys, Control) {
  EXPECT_EQ(typed({kControl, kC, kControl | kUp, kC}), "\003c");
  EXPECT_EQ(typed({kExtended, kControl, 0x2c, kExtended, kControl | kUp, 0x2c}), "\032z");
  EXPECT_EQ(typed({kControl, 0x1a, 0x2b, 0x1b, 0x35}), "\033\034\035\037");
  EXPECT_EQ(typed({kControl, 0x39}), std::string(1, '\0'));
  EXPECT_EQ(typed({kControl, 0x1c}), "\r");
}

TEST(KeyboardKeys, AltPutsEscapeBefore) {
  EXPECT_EQ(typed({kAlt, kA, kAlt | kUp, kA}), "\033aa");
  EXPECT_EQ(typed({kExtended, kAlt, kExtended, 0x48}), "\033\033[A");
}

TEST(KeyboardKeys, KeysThatMove) {
  EXPECT_EQ(typed({kExtended, 0x48, kExtended, 0x48 | kUp, kExtended, 0x50, kExtended, 0x4d,
                   kExtended, 0x4b}),
            "\033[A\033[B\033[C\033[D");
  EXPECT_EQ(typed({kExtended, 0x47, kExtended, 0x4f, kExtended, 0x52, kExtended, 0x53, kExtended,
                   0x49, kExtended, 0x51}),
            "\033[H\033[F\033[2~\033[3~\033[5~\033[6~");
  // Keyboards put shift codes around these keys.
  EXPECT_EQ(typed({kExtended, kShift, kExtended, 0x48, kExtended, 0x48 | kUp, kExtended,
                   kShift | kUp, kA}),
            "\033[Aa");
  EXPECT_EQ(typed({kExtended, kShift, kExtended, 0x48, kA}), "\033[Aa");
  EXPECT_EQ(typed({kShift, 0x0f}), "\033[Z");
}

TEST(KeyboardKeys, KeysThatMoveCanSendO) {
  Keyboard keyboard;
  std::string bytes;
  for (const int code : {kExtended, 0x48, kExtended, 0x47, kExtended, 0x53, 0x4a, int{kA}})
    bytes += keyboard.take(static_cast<uint8_t>(code), true);
  EXPECT_EQ(bytes, "\033OA\033OH\033[3~-a");
}

TEST(KeyboardKeys, Keypad) {
  EXPECT_EQ(typed({0x47, 0x4c, 0x52, 0x53, 0x4a, 0x4e, 0x37, kExtended, 0x35, kExtended, 0x1c}),
            "750.-+*/\r");
  EXPECT_EQ(typed({kNumLock, 0x47, 0x4c, 0x48, 0x4e, kNumLock, 0x48}), "\033[H\033[A+8");
}

TEST(KeyboardKeys, PauseAndUnknownKeysSendNothing) {
  EXPECT_EQ(typed({0xe1, kControl, kNumLock, 0xe1, 0x9d, 0xc5, kA, 0x47}), "a7");
  EXPECT_EQ(typed({0x3b, 0x58, 0x7f, 0x00, 0xfa, 0xfe, 0xff, kExtended, 0x5b, kA}), "a");
  EXPECT_EQ(typed({kExtended, kExtended, 0x48}), "\033[A");
}

// After any codes, a key still works.
TEST(KeyboardKeys, RandomCodes) {
  std::mt19937_64 random(20240229);
  for (int run = 0; run < 200; ++run) {
    Keyboard keyboard;
    for (int i = 0; i < 500; ++i) {
      EXPECT_LE(keyboard.take(static_cast<uint8_t>(random())).size(), 6u);
    }
    // Two codes end a prefix, or the pause key. Then all modifiers are let go.
    take(keyboard, {0xff, 0xff, kShift | kUp, kRightShift | kUp, kControl | kUp, kAlt | kUp,
                    kExtended, kControl | kUp, kExtended, kAlt | kUp});
    EXPECT_EQ(take(keyboard, {kOne, 0x48 | kUp, 0x1c}), "1\r");
  }
}

}  // namespace
