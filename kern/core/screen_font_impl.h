// The screen's font, made from a console font of the build machine by tools/stele/screen_font.py.
#pragma once

#include <cstdint>

inline constexpr unsigned kGlyphWidth = 8, kGlyphHeight = 16;
inline constexpr uint8_t kFirstGlyph = ' ', kLastGlyph = 0x7f;  // the last is ScreenText::kUnknown

// One byte for each line of a glyph, from above; the highest bit is on the left.
extern "C" const uint8_t screen_font[kLastGlyph - kFirstGlyph + 1][kGlyphHeight];
