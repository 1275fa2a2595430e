// Stale words of earlier calls on a stack.
#pragma once

// Zeroes 2 KiB below the caller's frame, and the caller-saved registers. Stale words may lie there:
// functions do not write all of their frames, so a later frame contains words of earlier frames,
// and an interrupt saves all registers on the stack. A task calls this before it sleeps or halts.
// Then no stale pointer on its stack makes a leaked object look reachable to a search for
// unreachable objects (reach/reach.h). The stack must have 2 KiB of room.
[[gnu::always_inline]] inline void dead_frames_clear() {
  constexpr unsigned long kBytes = 2048;
  void* place;
  unsigned long words = kBytes / sizeof(unsigned long);
  asm volatile(
      "lea -%c3(%%rsp), %0\n\trep stosq\n\t"
      "xorl %%edx, %%edx\n\txorl %%esi, %%esi\n\txorl %%edi, %%edi\n\t"
      "xorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d\n\t"
      "xorl %%r10d, %%r10d\n\txorl %%r11d, %%r11d"
      : "=&D"(place), "+c"(words)
      : "a"(0ul), "i"(kBytes)
      : "memory", "cc", "rdx", "rsi", "r8", "r9", "r10", "r11");
}
