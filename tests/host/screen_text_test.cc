// Tests core/screen_text_impl.h, which interprets the bytes of a terminal's output.
#include "core/screen_text_impl.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr unsigned kColumns = 20, kRows = 4;

// A screen, whose memory has the exact size, so that AddressSanitizer sees any access outside.
struct Screen {
  std::vector<ScreenCell> cells{std::vector<ScreenCell>(kColumns * kRows)};
  ScreenText text;

  Screen() { text.init(cells.data(), kColumns, kRows); }
  Screen& write(std::string_view bytes) {
    text.write(bytes.data(), bytes.size());
    return *this;
  }
  // The lines, without blanks at their ends, each followed by "|".
  std::string lines() const {
    std::string all;
    for (unsigned row = 0; row < kRows; ++row) {
      std::string line;
      for (unsigned column = 0; column < kColumns; ++column)
        line += static_cast<char>(text.shown(row, column));
      all += line.substr(0, line.find_last_not_of(' ') + 1) + "|";
    }
    return all;
  }
  unsigned colours(unsigned row, unsigned column) const { return text.shown(row, column) >> 8; }
  // "row,column" of the cursor, which is the only cell with exchanged colours; "" if it is hidden.
  std::string cursor() const {
    for (unsigned row = 0; row < kRows; ++row) {
      for (unsigned column = 0; column < kColumns; ++column) {
        if (colours(row, column) == 0x70) return std::to_string(row) + "," + std::to_string(column);
      }
    }
    return "";
  }
};

std::string shown(std::string_view bytes) {
  return Screen().write(bytes).lines();
}
std::string cursor_after(std::string_view bytes) {
  return Screen().write(bytes).cursor();
}

TEST(ScreenText, LinesAndControlCharacters) {
  EXPECT_EQ(shown("one\r\ntwo"), "one|two|||");
  EXPECT_EQ(shown("one\ntwo"), "one|   two|||");
  EXPECT_EQ(shown("a\tb\a\b\bX\rY"), "Y      Xb||||");
  EXPECT_EQ(cursor_after(""), "0,0");
  EXPECT_EQ(cursor_after("\b\t\t\t\t\t"), "0,19");
}

TEST(ScreenText, Scrolls) {
  EXPECT_EQ(shown("1\r\n2\r\n3\r\n4"), "1|2|3|4|");
  EXPECT_EQ(shown("1\r\n2\r\n3\r\n4\r\n5"), "2|3|4|5|");
  EXPECT_EQ(shown("1\r\n2\r\n3\r\n4\r\n5\r\n"), "3|4|5||");
  EXPECT_EQ(shown("1\r\n2\r\n3\r\n4\033[H\033M0"), "0|1|2|3|");
}

TEST(ScreenText, TheLastColumnWrapsWithTheNextCharacter) {
  const std::string line = "abcdefghijklmnopqrst";
  EXPECT_EQ(shown(line), line + "||||");
  EXPECT_EQ(cursor_after(line), "0,19");
  EXPECT_EQ(shown(line + "\r\nx"), line + "|x|||");
  EXPECT_EQ(shown(line + "x"), line + "|x|||");
  EXPECT_EQ(shown(line + "\033[Kx"), "abcdefghijklmnopqrsx||||");
}

TEST(ScreenText, CursorSequences) {
  EXPECT_EQ(cursor_after("\033[3;5H"), "2,4");
  EXPECT_EQ(cursor_after("\033[H"), "0,0");
  EXPECT_EQ(cursor_after("\033[999;999H"), "3,19");
  EXPECT_EQ(cursor_after("\033[0;0f"), "0,0");
  EXPECT_EQ(cursor_after("\033[2;2H\033[B\033[2C\033[A\033[D"), "1,2");
  EXPECT_EQ(cursor_after("\033[9A\033[9D"), "0,0");
  EXPECT_EQ(cursor_after("\033[3d\033[7G"), "2,6");
  EXPECT_EQ(cursor_after("\033[2;3H\0337\033[H\0338"), "1,2");
  EXPECT_EQ(cursor_after("\033[2;3H\033[s\033[H\033[u"), "1,2");
  EXPECT_EQ(cursor_after("\033[?25l"), "");
  EXPECT_EQ(cursor_after("\033[?25l\033[?25h"), "0,0");
}

TEST(ScreenText, CursorKeysSendO) {
  Screen screen;
  EXPECT_FALSE(screen.text.cursor_keys_send_o());
  EXPECT_TRUE(screen.write("\033[?1h").text.cursor_keys_send_o());
  EXPECT_FALSE(screen.write("\033[?1l").text.cursor_keys_send_o());
}

TEST(ScreenText, Erases) {
  const std::string full = "abc\r\ndef\r\nghi\033[2;2H";
  EXPECT_EQ(shown(full + "\033[K"), "abc|d|ghi||");
  EXPECT_EQ(shown(full + "\033[1K"), "abc|  f|ghi||");
  EXPECT_EQ(shown(full + "\033[2K"), "abc||ghi||");
  EXPECT_EQ(shown(full + "\033[J"), "abc|d|||");
  EXPECT_EQ(shown(full + "\033[1J"), "|  f|ghi||");
  EXPECT_EQ(shown(full + "\033[2J"), "||||");
  EXPECT_EQ(shown(full + "\033[X"), "abc|d f|ghi||");
  EXPECT_EQ(shown(full + "\033c"), "||||");
}

TEST(ScreenText, InsertsAndDeletes) {
  const std::string full = "abc\r\ndef\r\nghi\r\njkl\033[2;2H";
  EXPECT_EQ(shown(full + "\033[P"), "abc|df|ghi|jkl|");
  EXPECT_EQ(shown(full + "\033[2@"), "abc|d  ef|ghi|jkl|");
  EXPECT_EQ(shown(full + "\033[L"), "abc||def|ghi|");
  EXPECT_EQ(shown(full + "\033[2M"), "abc|jkl|||");
  EXPECT_EQ(shown(full + "\033[99L"), "abc||||");
  EXPECT_EQ(shown(full + "\033[99M"), "abc||||");
  EXPECT_EQ(shown(full + "\033[99P\033[99@"), "abc|d|ghi|jkl|");
}

TEST(ScreenText, Colours) {
  Screen screen;
  screen.write(
      "\033[31ma\033[1mb\033[44mc\033[7md\033[0me\033[7mf\033[27mg\033[1;32mh\033[22;39mi");
  const unsigned expected[] = {0x04, 0x0c, 0x1c, 0x41, 0x07, 0x70, 0x07, 0x0a, 0x07};
  for (unsigned i = 0; i < std::size(expected); ++i) EXPECT_EQ(screen.colours(0, i), expected[i]);
}

TEST(ScreenText, WhatIsNotUnderstoodLeavesNoText) {
  EXPECT_EQ(shown("a\033(Bb\033[1;2;3zc\033[?2004hd\033]0;title\ae\033]0;title\033\\f\033[>cg"),
            "abcdefg||||");
  EXPECT_EQ(shown("a\033[1;2;3;4;5;6;7;8;9;10;11mb\033[99999999999999999999Cc"),
            "ab                 c||||");
  EXPECT_EQ(shown("a\033[12\030b"), "ab||||");  // CAN ends a sequence
  EXPECT_EQ(shown("x\xc3\xa9y\xe2\x82\xacz"), "x\x7fy\x7fz||||");
}

// Random bytes: AddressSanitizer watches. Afterwards a reset makes the screen usable.
TEST(ScreenText, RandomBytes) {
  constexpr std::string_view kOften = "\033\033[[;?0123456789ABCDHJKLMP@Xmsu78Mc\n\r\t\b";
  std::mt19937_64 random(20240229);
  for (int run = 0; run < 100; ++run) {
    Screen screen;
    for (int i = 0; i < 3000; ++i) {
      const char byte =
          random() % 3 ? kOften[random() % kOften.size()] : static_cast<char>(random());
      screen.write({&byte, 1});
    }
    EXPECT_EQ(screen.write("\030\033c\033[?25hok").lines(), "ok||||");
  }
}

}  // namespace
