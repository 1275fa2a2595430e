// The screen: a framebuffer of pixels, in which characters of a fixed font are drawn, or VGA text
// memory. Multiboot2 describes it (boot.h).
//
// ScreenText holds the text. After each write, flush() compares the text with `drawn`, which has
// what the screen shows, and draws the cells that differ. So the screen's memory is never read
// (reading is slow, even where writes are gathered), and text that scrolls by costs only the cells
// that change at the end of a write. The worst write draws every cell once: with interrupts off,
// that is a few milliseconds on a PC, less than the serial port needs for the same bytes.
//
// The memory is mapped write-combining, outside of the direct map. On a screen wider than
// kMaxColumns characters each pixel of the font becomes a square of 2, 3 … pixels.
#include "core/screen.h"

#include <algorithm>

#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/panic.h"
#include "core/screen_font_impl.h"
#include "core/screen_text_impl.h"
#include "core/spinlock.h"

namespace {

constexpr ScreenCell kNeverDrawn = 0;  // no text has this cell: NUL is not shown
constexpr size_t kLongestHold = 512;   // bytes shown under one hold of the lock

constinit Spinlock lock{LockRank::kLog};
constinit ScreenText text;
constinit Framebuffer screen;
constinit uint64_t base = 0;  // the address of the screen's memory; 0: no screen
constinit unsigned scale = 1, pixel_bytes = 0;
constinit ScreenCell* drawn = nullptr;
constinit uint32_t palette[16] = {};  // values of a pixel
constinit unsigned panic_lines = 0;   // lines that a panic has shown
constinit bool in_panic = false;      // the CPU that panics is in screen_write()

constexpr uint32_t kColours[16] = {0x000000, 0x0000aa, 0x00aa00, 0x00aaaa, 0xaa0000, 0xaa00aa,
                                   0xaa5500, 0xc0c0c0, 0x555555, 0x5555ff, 0x55ff55, 0x55ffff,
                                   0xff5555, 0xff55ff, 0xffff55, 0xffffff};

uint32_t part_of_pixel(const Framebuffer::Colour& colour, unsigned value) {
  const uint32_t reduced =
      colour.bits >= 8 ? value << (colour.bits - 8) : value >> (8 - colour.bits);
  return reduced << colour.first_bit;
}

uint32_t pixel_of(uint32_t colour) {
  return part_of_pixel(screen.red, colour >> 16 & 0xff) |
         part_of_pixel(screen.green, colour >> 8 & 0xff) |
         part_of_pixel(screen.blue, colour & 0xff);
}

void put_pixel(uint64_t address, uint32_t pixel) {
  switch (pixel_bytes) {
    case 4:
      *reinterpret_cast<volatile uint32_t*>(address) = pixel;
      return;
    case 3:
      *reinterpret_cast<volatile uint8_t*>(address + 2) = static_cast<uint8_t>(pixel >> 16);
      [[fallthrough]];
    case 2:
      *reinterpret_cast<volatile uint8_t*>(address) = static_cast<uint8_t>(pixel);
      *reinterpret_cast<volatile uint8_t*>(address + 1) = static_cast<uint8_t>(pixel >> 8);
  }
}

void draw_line(uint64_t address, uint8_t bits, uint32_t front, uint32_t back) {
  for (unsigned x = 0; x < kGlyphWidth; ++x, bits = static_cast<uint8_t>(bits << 1)) {
    for (unsigned i = 0; i < scale; ++i, address += pixel_bytes)
      put_pixel(address, bits & 0x80 ? front : back);
  }
}

void draw_pixels(unsigned row, unsigned column, ScreenCell cell) {
  const auto character = static_cast<uint8_t>(cell);
  const uint8_t* const glyph =
      screen_font[character >= kFirstGlyph && character <= kLastGlyph ? character - kFirstGlyph
                                                                      : 0];
  const uint32_t front = palette[cell >> 8 & 15], back = palette[cell >> 12 & 7];
  uint64_t line = base + uint64_t{row} * kGlyphHeight * scale * screen.pitch +
                  uint64_t{column} * kGlyphWidth * scale * pixel_bytes;
  for (unsigned y = 0; y < kGlyphHeight * scale; ++y, line += screen.pitch)
    draw_line(line, glyph[y / scale], front, back);
}

void draw(unsigned row, unsigned column, ScreenCell cell) {
  if (screen.kind == Framebuffer::Kind::kPixels) return draw_pixels(row, column, cell);
  const uint64_t line = base + uint64_t{row} * screen.pitch;
  reinterpret_cast<volatile ScreenCell*>(line)[column] = cell;
}

void flush() {
  for (unsigned row = 0; row < text.rows(); ++row) {
    for (unsigned column = 0; column < text.columns(); ++column) {
      const ScreenCell wanted = text.shown(row, column);
      ScreenCell& shown = drawn[row * text.columns() + column];
      if (shown == wanted) continue;
      shown = wanted;
      draw(row, column, wanted);
    }
  }
}

void show(const char* data, size_t size) {
  text.write(data, size);
  flush();
}

// A fault while the screen is drawn panics. The panic then shows its text on the serial port only.
// The message and the backtrace come first, and must not scroll away: the text stops when the
// screen is full.
void show_in_panic(const char* data, size_t size) {
  if (in_panic || panic_lines + 1 >= text.rows()) return;
  in_panic = true;
  panic_lines += static_cast<unsigned>(std::count(data, data + size, '\n'));
  show(data, size);
  in_panic = false;
}

void show_part(const char* data, size_t size) {
  if (panicking()) return show_in_panic(data, size);
  if (this_cpu().in_nmi) {  // may have interrupted the lock's holder
    const TryGuard guard(lock);
    return show(data, size);
  }
  const Guard guard(lock);
  show(data, size);
}

// False if the screen cannot be used. Sets the number of bytes of a pixel and the size in
// characters.
bool measure(unsigned& columns, unsigned& rows) {
  columns = screen.width;
  rows = screen.height;
  pixel_bytes = (screen.pixel_bits + 7u) / 8;
  if (screen.kind == Framebuffer::Kind::kPixels) {
    if (pixel_bytes < 2 || pixel_bytes > 4) return false;
    const unsigned most = ScreenText::kMaxColumns * kGlyphWidth;
    scale = std::max((screen.width + most - 1) / most, 1u);
    columns = screen.width / (kGlyphWidth * scale);
    rows = screen.height / (kGlyphHeight * scale);
  } else if (pixel_bytes != sizeof(ScreenCell)) {
    return false;
  }
  columns = std::min(columns, ScreenText::kMaxColumns);
  rows = std::min(rows, ScreenText::kMaxRows);
  return columns >= ScreenText::kMinColumns && rows >= ScreenText::kMinRows &&
         screen.pitch >= uint64_t{screen.width} * pixel_bytes;
}

bool map() {
  const uint64_t first = align_down(screen.address.value, kPageSize);
  const uint64_t end =
      align_up(screen.address.value + uint64_t{screen.pitch} * screen.height, kPageSize);
  if (!map_kernel(kScreenBase, {first}, end - first, Access::kScreen)) return false;
  base = kScreenBase + (screen.address.value - first);
  return true;
}

// VGA's own cursor would stay where the firmware left it.
void hide_vga_cursor() {
  constexpr uint16_t kIndex = 0x3d4, kValue = 0x3d5;
  constexpr uint8_t kCursorStart = 0x0a, kCursorOff = 0x20;
  out8(kIndex, kCursorStart);
  out8(kValue, kCursorOff);
}

// Clears also the margins, on which no cell lies.
void clear_pixels() {
  const uint64_t lines = screen.height;
  for (uint64_t y = 0; y < lines; ++y) {
    for (uint64_t x = 0; x < screen.width; ++x)
      put_pixel(base + y * screen.pitch + x * pixel_bytes, palette[0]);
  }
}

}  // namespace

void screen_init() {
  screen = boot_info().framebuffer;
  unsigned columns, rows;
  if (screen.kind == Framebuffer::Kind::kNone) return;
  if (!measure(columns, rows)) {
    klog("screen: %ux%u, %u bits for each pixel: not supported", screen.width, screen.height,
         screen.pixel_bits);
    return;
  }
  const size_t bytes = size_t{columns} * rows * sizeof(ScreenCell);
  drawn = static_cast<ScreenCell*>(early_alloc(bytes, alignof(ScreenCell)));
  std::fill_n(drawn, bytes / sizeof(ScreenCell), kNeverDrawn);
  text.init(static_cast<ScreenCell*>(early_alloc(bytes, alignof(ScreenCell))), columns, rows);
  for (unsigned i = 0; i < 16; ++i) palette[i] = pixel_of(kColours[i]);
  if (!map()) panic("no memory for the screen's page tables");
  if (screen.kind == Framebuffer::Kind::kPixels) {
    clear_pixels();
  } else {
    hide_vga_cursor();
  }
  flush();
}

bool screen_present() {
  return base != 0;
}

ScreenSize screen_size() {
  return {static_cast<uint16_t>(text.columns()), static_cast<uint16_t>(text.rows())};
}

bool screen_cursor_keys_send_o() {
  return text.cursor_keys_send_o();
}

void screen_write(const char* data, size_t size) {
  if (base == 0) return;
  while (size > 0) {
    const size_t part = std::min(size, kLongestHold);
    show_part(data, part);
    data += part;
    size -= part;
  }
}
