// #mem/whatis: after an address is written to it, the same open file reads as a description of the
// address.
#pragma once

#include <string_view>

#include "core/sleep.h"
#include "lib/result.h"
#include "reach/whatis.h"

// An open file. Calls may be concurrent, and may sleep.
class MemWhatis {
 public:
  static Result<MemWhatis*> create();  // ENOMEM
  static void destroy(MemWhatis* file);
  ~MemWhatis() {
    if (answer_) whatis_answer_free(answer_);
  }

  // Takes an address, hexadecimal with 0x or decimal, and makes the answer. After an error (EINVAL
  // or ENOMEM, with an error string) the previous answer stays.
  Result<void> write(std::string_view text);
  // Reads the answer. The first read after a write() begins at the answer's first byte, regardless
  // of `offset`. Later reads count from the offset of that first read. So a program may read
  // directly after writing, or seek to any offset before reading. Returns 0 at the answer's end,
  // before its first byte, and if there is no answer.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  Mutex lock_{LockRank::kTraceReader};
  WhatisAnswer* answer_ GUARDED_BY(lock_) = nullptr;
  bool is_read_ GUARDED_BY(lock_) = false;
  uint64_t begin_ GUARDED_BY(lock_) = 0;  // offset of the first read after a write()
};
