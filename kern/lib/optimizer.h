// Hides values and objects from the optimiser. No helper emits an instruction.
//
// In the tracer's hooks each instruction counts (docs/speed.md). When a hook uses a helper, a
// comment names the rows of `make bench` that get worse without the helper; a helper that improves
// no row is not used there.
#pragma once

// From here on the compiler knows nothing of the value: it reuses no result that it computed from
// the value before, and it computes nothing from the value before this point.
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

// Keeps the compiler from making the calling function empty, and its last call a jump, so that a
// backtrace shows the function's frame.
[[gnu::always_inline]] inline void keep_frame() {
  asm volatile("");
}
