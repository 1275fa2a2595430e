// A hash of names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Returns a hash of `text` of 64 good bits. `seed`: what else the hash depends on. With a secret
// seed nobody can choose texts of equal hashes. Each eight bytes are mixed by a multiplication
// whose upper and lower half are combined (the function wymum of Wang Yi's wyhash).
inline uint64_t hash_of(std::string_view text, uint64_t seed) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  uint64_t hash = seed ^ text.size() * kMultiplier;
  const auto mix = [&](uint64_t word) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * kMultiplier;
    hash = static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  };
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    uint64_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    mix(word);
  }
  uint64_t last = 0;
  for (size_t i = 0; i < left; i++) last = last << 8 | static_cast<uint8_t>(at[i]);
  mix(last);
  return hash;
}
