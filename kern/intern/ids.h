// The numbers that name stacks and contexts in the tables that all traces share (shared_tables.h).
#pragma once

#include <cstdint>

// All numbers have at most this many bits, so that a record has room for three.
inline constexpr unsigned kNumberBits = 24;

// Names a stack in StackTable, or a pair of a kernel stack and a user stack.
enum class StackId : uint32_t { kNone = 0 };
// Names a context in ContextTable.
enum class ContextId : uint32_t { kNone = 0 };

constexpr uint32_t number_of(StackId id) {
  return static_cast<uint32_t>(id);
}
constexpr uint32_t number_of(ContextId id) {
  return static_cast<uint32_t>(id);
}
