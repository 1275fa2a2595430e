// Serial ports COM1..COM4 (16550).
#pragma once

#include <cstddef>
#include <cstdint>

inline constexpr unsigned kUartCount = 4;

void uart_early_init();
bool uart_present(unsigned port);
// Sends all bytes, by polling. Bytes are lost if the port accepts none for long. Any context.
void uart_write(unsigned port, const char* data, size_t size);
// Sends bytes as long as the port accepts them. Returns their number. Any context, but no panic.
size_t uart_send(unsigned port, const char* data, size_t size);
// Turns on interrupts for received bytes: `receive` is called in interrupt context for each byte.
// False if there is no such port, or if its interrupt cannot be registered.
bool uart_listen(unsigned port, void (*receive)(unsigned port, uint8_t byte));
// Waits until the ports have sent all written bytes; gives up if a port does not become ready. Any
// context.
void uart_drain();
