// The last lines of the kernel log, kept in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Keeps a line, without its line end. A longer line than the buffer has room for is cut. Takes no
// lock. Any context, any lock held.
void log_keep(std::string_view line);

// Copies up to `size` bytes of the kept lines to `buffer`, oldest line first, beginning at byte
// `offset` of their text. Each line ends with a newline. Returns the number of bytes copied, 0 at
// the end. Offsets count from the oldest kept line, so a reader that makes several calls may miss
// or see again a part of a line if the log has thrown away lines between two calls. Any context.
size_t log_read(char* buffer, size_t size, uint64_t offset);
