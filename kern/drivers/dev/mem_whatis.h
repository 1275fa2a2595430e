// #mem/whatis: an address is written, and what it is read from the same open file.
#pragma once

#include <string_view>

#include "core/sleep.h"
#include "lib/result.h"
#include "reach/whatis.h"

// An open file. Calls may come at once; they may sleep.
class MemWhatis {
 public:
  static Result<MemWhatis*> create();  // ENOMEM
  static void destroy(MemWhatis* file);
  ~MemWhatis() {
    if (answer_) whatis_answer_free(answer_);
  }

  // An address as hexadecimal with 0x, or decimal: EINVAL otherwise, ENOMEM. Both with an error
  // string; the answer before stays.
  Result<void> write(std::string_view text);
  // The answer begins at the offset from which it is first read: behind the question, for who goes
  // on reading where he has written, or anywhere that he seeks. 0 at its end, and without one.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  Mutex lock_{LockRank::kTraceReader};
  WhatisAnswer* answer_ GUARDED_BY(lock_) = nullptr;
  bool is_read_ GUARDED_BY(lock_) = false;
  uint64_t begin_ GUARDED_BY(lock_) = 0;  // offset of its first byte
};
