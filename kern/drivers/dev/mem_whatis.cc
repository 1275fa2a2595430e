#include "drivers/dev/mem_whatis.h"

#include <new>

#include "core/errstr.h"
#include "kmalloc.h"
#include "ns/device.h"

namespace {

Result<uint64_t> parse_address(std::string_view text) {
  constexpr const char* kExpected = "an address, as 0xffff800000644008";
  TRY(check_command_text(text, kExpected));
  CommandLine line, more;
  if (next_command(text, line) && line.rest.empty() && !next_command(text, more)) {
    std::string_view digits = line.word;
    const bool is_hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
    if (is_hexadecimal) digits.remove_prefix(2);
    uint64_t address = 0;
    const TakenNumber taken = take_number(digits, is_hexadecimal ? 16 : 10, &address);
    if (taken == TakenNumber::kNumber && digits.empty()) return address;
    if (taken == TakenNumber::kTooLarge && digits.empty())
      return fail(Errno::EINVAL, "the address has more than 64 bits");
  }
  return fail(Errno::EINVAL, "expected %s", kExpected);
}

}  // namespace

Result<MemWhatis*> MemWhatis::create() {
  void* const memory = kmalloc(sizeof(MemWhatis), KM_SLEEP);
  if (!memory) return Errno::ENOMEM;
  return new (memory) MemWhatis;
}

void MemWhatis::destroy(MemWhatis* file) {
  file->~MemWhatis();
  kfree(file);
}

Result<void> MemWhatis::write(std::string_view text) {
  WhatisAnswer* const answer = TRY(whatis_answer_make(TRY(parse_address(text))));
  const MutexGuard guard(lock_);
  if (answer_) whatis_answer_free(answer_);
  answer_ = answer;
  is_read_ = false;
  return {};
}

size_t MemWhatis::read(char* buffer, size_t size, uint64_t offset) {
  const MutexGuard guard(lock_);
  if (!answer_) return 0;
  if (!is_read_) begin_ = offset;
  is_read_ = true;
  if (offset < begin_) return 0;
  return read_text(whatis_answer_text(answer_), buffer, size, offset - begin_);
}
