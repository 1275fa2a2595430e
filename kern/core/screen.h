// The screen that the boot loader has set up: shows the console's output.
#pragma once

#include <cstddef>
#include <cstdint>

// Maps the screen, and clears it. Without a screen, or with one of an unknown kind, does nothing.
// Called once, after paging_init() and before early_alloc_close().
void screen_init();
bool screen_present();

struct ScreenSize {
  uint16_t columns, rows;  // in characters
};
// Only if screen_present().
ScreenSize screen_size();

// True if the program at the console has asked for ESC O in place of ESC [ from the keys that move
// the cursor (ESC [ ? 1 h). Any context.
bool screen_cursor_keys_send_o();

// Shows the bytes, as a terminal does (screen_text_impl.h). Any context. In an NMI does not wait
// for a lock. In a panic takes no lock, and shows only as many lines as fit on the screen. Does
// nothing before screen_init() and without a screen.
void screen_write(const char* data, size_t size);
