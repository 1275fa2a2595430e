// Copying between kernel and user space. The addresses come from user programs and may have any
// value. The functions return EFAULT for an invalid address. They may sleep, because a page may
// have to be copied or made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/result.h"

Result<void> copy_from_user(void* to, uint64_t from, size_t size);
Result<void> copy_to_user(uint64_t to, const void* from, size_t size);
// Copies a string with its NUL, at most `size` bytes; returns the length without the NUL.
// ENAMETOOLONG if the string is longer.
Result<size_t> copy_string_from_user(char* to, uint64_t from, size_t size);
// Does what copy_from_user does, but never sleeps. False if the address is invalid or a page is not
// mapped right now. Any context but NMI.
bool load_user_now(void* to, uint64_t from, size_t size);
// Does what load_user_now does, for eight bytes. The caller has interrupts off.
bool load_user_word(uint64_t from, uint64_t* to);
