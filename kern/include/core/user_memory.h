// Copying between kernel and user space. The addresses come from user programs and may be anything:
// a bad one gives EFAULT. May sleep (a page may have to be copied or made).
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/result.h"

Result<void> copy_from_user(void* to, uint64_t from, size_t size);
Result<void> copy_to_user(uint64_t to, const void* from, size_t size);
// Copies a string with its NUL, at most `size` bytes; the length without the NUL. ENAMETOOLONG if
// it is longer.
Result<size_t> copy_string_from_user(char* to, uint64_t from, size_t size);
// As copy_from_user, but never sleeps: what is not mapped right now is false. Any context but NMI.
bool load_user_now(void* to, uint64_t from, size_t size);
// The same of eight bytes, with interrupts off.
bool load_user_word(uint64_t from, uint64_t* to);
