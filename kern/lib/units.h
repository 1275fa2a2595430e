// Types that carry units and kinds.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

inline constexpr size_t kPageSize = 4096;
inline constexpr size_t kPageShift = 12;

struct PhysAddr {
  uint64_t value = 0;
  auto operator<=>(const PhysAddr&) const = default;
  constexpr PhysAddr operator+(uint64_t bytes) const { return {value + bytes}; }
};

// Since boot, monotonic.
struct Nanoseconds {
  uint64_t value = 0;
  auto operator<=>(const Nanoseconds&) const = default;
  constexpr Nanoseconds operator+(Nanoseconds other) const { return {value + other.value}; }
  constexpr Nanoseconds operator-(Nanoseconds other) const { return {value - other.value}; }
};

constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}
