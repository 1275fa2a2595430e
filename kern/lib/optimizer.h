// Hides values and objects from the optimiser. These helpers emit no instruction.
//
// In the tracer's hooks each instruction counts (docs/speed.md). A hook uses a helper only where
// that improves a row of `make bench`; a comment there names the rows.
#pragma once

// From here on the compiler knows nothing about the value. It does not reuse results that it
// computed from the value earlier, and it does not compute anything from the value in advance.
template <typename T>
[[gnu::always_inline]] inline void hide_value(T& value) {
  asm("" : "+r"(value));
}

// Hides an object in memory: the compiler stores the object before this point, and reads it again
// at its next use.
template <typename T>
[[gnu::always_inline]] inline void hide_object(T& object) {
  asm("" : "+m"(object));
}

// Makes the compiler assume that other code has a copy of the pointer `value`: the compiler then
// omits no stores to the memory that `value` points to.
template <typename T>
[[gnu::always_inline]] inline void escape(const T& value) {
  asm volatile("" ::"r"(value) : "memory");
}

// Keeps the compiler from treating the calling function as empty, and from turning its last call
// into a jump. A backtrace would show no frame of the function in these cases.
[[gnu::always_inline]] inline void keep_frame() {
  asm volatile("");
}
