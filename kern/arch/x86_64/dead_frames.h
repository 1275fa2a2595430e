// What calls have left on a stack.
#pragma once

// Zeroes 2 KiB below the caller's frame. Frames do not write all of their memory, so the frames of
// the next calls would show what earlier ones had there. A task that calls this before it sleeps or
// halts hides no lost object from reach/reach.h for as long as it does. The stack has that much.
[[gnu::always_inline]] inline void dead_frames_clear() {
  constexpr unsigned long kBytes = 2048;
  void* place;
  unsigned long words = kBytes / sizeof(unsigned long);
  asm volatile("lea -%c3(%%rsp), %0\n\trep stosq"
               : "=&D"(place), "+c"(words)
               : "a"(0ul), "i"(kBytes)
               : "memory");
}
