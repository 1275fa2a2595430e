// Hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// XORs both halves of a product (Wang Yi's wyhash). The factor is 2^64 / golden ratio.
inline uint64_t mixed(uint64_t word) {
  const auto product = static_cast<unsigned __int128>(word) * 0x9e3779b97f4a7c15;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Returns a hash of `text` of 64 good bits. `seed`: what else the hash depends on. With a secret
// seed nobody can choose texts of equal hashes.
inline uint64_t hash_of(std::string_view text, uint64_t seed) {
  uint64_t hash = mixed(seed ^ text.size());
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    uint64_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    hash = mixed(hash ^ word);
  }
  uint64_t last = 0;
  for (size_t i = 0; i < left; i++) last = last << 8 | static_cast<uint8_t>(at[i]);
  return mixed(hash ^ last);
}
