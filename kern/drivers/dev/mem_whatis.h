// #mem/whatis: takes an address, and describes it in the same open file.
#pragma once

#include <string_view>

#include "core/sleep.h"
#include "lib/result.h"
#include "reach/whatis.h"

// An open file. Concurrent calls are possible; they may sleep.
class MemWhatis {
 public:
  static Result<MemWhatis*> create();  // ENOMEM
  static void destroy(MemWhatis* file);
  ~MemWhatis() {
    if (answer_) whatis_answer_free(answer_);
  }

  // Takes an address: hexadecimal with 0x, or decimal. EINVAL, ENOMEM, both with an error string;
  // the previous answer stays.
  Result<void> write(std::string_view text);
  // The answer begins at the offset of the first read after the write: behind the question for
  // sequential access, or at any offset after a seek. 0 at its end, and without an answer.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  Mutex lock_{LockRank::kTraceReader};
  WhatisAnswer* answer_ GUARDED_BY(lock_) = nullptr;
  bool is_read_ GUARDED_BY(lock_) = false;
  uint64_t begin_ GUARDED_BY(lock_) = 0;  // offset of the answer's first byte
};
