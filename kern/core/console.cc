#include "core/console.h"

#include "core/screen.h"
#include "core/uart.h"

void console_write(const char* data, size_t size) {
  uart_write(0, data, size);
  screen_write(data, size);
}
