// What the optimiser must not know or leave out. Each helper is no instruction.
//
// In the tracer's hooks each instruction counts (docs/speed.md). There the comment at a use names
// the rows of `make bench` that get worse without it; a use that protects no row is removed.
#pragma once

// From here on the value may be any: what was computed from it is not kept beside it, and nothing
// is computed from it earlier.
template <typename T>
[[gnu::always_inline]] inline void hide_value(T& value) {
  asm("" : "+r"(value));
}

// The same of an object in memory: it is stored by now, and read again when it is used.
template <typename T>
[[gnu::always_inline]] inline void hide_object(T& object) {
  asm("" : "+m"(object));
}

// Somebody else may know the value: what it points to is stored, and is not left out.
template <typename T>
[[gnu::always_inline]] inline void escape(const T& value) {
  asm volatile("" ::"r"(value) : "memory");
}

// The function is not empty, and its last call is not a jump: it has a frame that a backtrace
// shows.
[[gnu::always_inline]] inline void keep_frame() {
  asm volatile("");
}
