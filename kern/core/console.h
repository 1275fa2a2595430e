// The console's output: the first serial port, and the screen if there is one.
#pragma once

#include <cstddef>

// Sends bytes to the first serial port and shows them on the screen. A line end is "\r\n". Bytes of
// several CPUs do not mix if each call has at most 256 bytes. Any context.
void console_write(const char* data, size_t size);
