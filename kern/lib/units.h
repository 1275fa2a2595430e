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

// A monotonic time since boot, or a duration.
struct Nanoseconds {
  uint64_t value = 0;
  auto operator<=>(const Nanoseconds&) const = default;
  constexpr Nanoseconds operator+(Nanoseconds other) const { return {value + other.value}; }
  constexpr Nanoseconds operator-(Nanoseconds other) const { return {value - other.value}; }
};

// A time since boot, from the coarse clock (time.h), or a duration.
struct Milliseconds {
  uint64_t value = 0;
  auto operator<=>(const Milliseconds&) const = default;
  constexpr Milliseconds operator-(Milliseconds other) const { return {value - other.value}; }
};

// A CPU's number, below cpu_count().
enum class CpuId : uint32_t {};
constexpr uint32_t number_of(CpuId id) {
  return static_cast<uint32_t>(id);
}

constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}
