// What calls have left on a stack.
#pragma once

// Zeroes 2 KiB below the caller's frame, and the registers that calls do not keep. Frames do not
// write all of their memory, so the frames of the next calls would show what earlier ones had
// there, and an interrupt saves all registers. A task that calls this before it sleeps or halts
// hides no lost object from reach/reach.h for as long as it does. The stack has that much.
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
