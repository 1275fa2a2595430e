// #random: `random` and `urandom`, which both read as unpredictable numbers.
//
// The generator is ChaCha20 (Bernstein 2008; RFC 8439) with fast key erasure: the first half of
// each block replaces the key and only the second half is output. So an attacker who reads the key
// cannot compute earlier output. At boot the key is seeded from the time stamp counter, the wall
// clock and, if the CPU has one of them, RDSEED or RDRAND. Each block also uses the time stamp
// counter, as its nonce.

#include "core/random.h"

#include <algorithm>
#include <bit>

#include "arch/x86_64/time.h"
#include "core/spinlock.h"
#include "drivers/dev/devices.h"
#include "lib/string.h"
#include "ns/device.h"

namespace {

constexpr size_t kKeyWords = 8, kBlockWords = 16, kOutputBytes = 32;

constinit Spinlock lock{LockRank::kDevice};
// Under `lock`.
constinit uint32_t key[kKeyWords] GUARDED_BY(lock) = {};
constinit uint64_t counter GUARDED_BY(lock) = 0;

void quarter_round(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  a += b, d = std::rotl(d ^ a, 16);
  c += d, b = std::rotl(b ^ c, 12);
  a += b, d = std::rotl(d ^ a, 8);
  c += d, b = std::rotl(b ^ c, 7);
}

// Computes one block: the first half becomes the new key, the second half is the output. Takes some
// 1,000 instructions with the lock held.
void next_block(uint8_t (&output)[kOutputBytes]) REQUIRES(lock) {
  const uint64_t nonce = tsc();
  const uint32_t start[kBlockWords] = {0x61707865,
                                       0x3320646e,
                                       0x79622d32,
                                       0x6b206574,
                                       key[0],
                                       key[1],
                                       key[2],
                                       key[3],
                                       key[4],
                                       key[5],
                                       key[6],
                                       key[7],
                                       static_cast<uint32_t>(counter),
                                       static_cast<uint32_t>(counter >> 32),
                                       static_cast<uint32_t>(nonce),
                                       static_cast<uint32_t>(nonce >> 32)};
  ++counter;
  uint32_t x[kBlockWords];
  std::copy(start, start + kBlockWords, x);
  for (int round = 0; round < 20; round += 2) {
    for (int i = 0; i < 4; ++i) quarter_round(x[i], x[i + 4], x[i + 8], x[i + 12]);
    for (int i = 0; i < 4; ++i)
      quarter_round(x[i], x[4 + (i + 1) % 4], x[8 + (i + 2) % 4], x[12 + (i + 3) % 4]);
  }
  for (size_t i = 0; i < kBlockWords; ++i) x[i] += start[i];
  std::copy(x, x + kKeyWords, key);
  memcpy(output, x + kKeyWords, kOutputBytes);
}

struct CpuRandom {
  bool rdrand, rdseed;
};
CpuRandom cpu_random() {
  uint32_t a = 0, b, c = 0, d;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  const uint32_t highest = a;
  a = 1, c = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  const bool rdrand = c & (1u << 30);
  a = 7, c = 0;
  if (highest >= 7) asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return {rdrand, highest >= 7 && (b & (1u << 18))};
}

// Gets 64 bits from the CPU's generator. Returns 0 if the CPU has no generator, or if the generator
// fails ten times.
uint64_t hardware_word(const CpuRandom& have) {
  uint64_t word = 0;
  bool ok = false;
  for (int attempt = 0; attempt < 10 && !ok; ++attempt) {
    if (have.rdseed)
      asm volatile("rdseed %0" : "=r"(word), "=@ccc"(ok));
    else if (have.rdrand)
      asm volatile("rdrand %0" : "=r"(word), "=@ccc"(ok));
  }
  return ok ? word : 0;
}

void seed() {
  const CpuRandom have = cpu_random();
  uint8_t discarded[kOutputBytes];
  for (size_t i = 0; i < kKeyWords; ++i) {
    const uint64_t word = hardware_word(have) ^ tsc() ^ boot_wall_seconds();
    Guard guard(lock);
    key[i] ^= static_cast<uint32_t>(word) ^ static_cast<uint32_t>(word >> 32);
    next_block(discarded);
  }
}

constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, 0},
    {"random", ABI_S_IFCHR | 0444, 0},
    {"urandom", ABI_S_IFCHR | 0444, 0},
};

class RandomDevice final : public TableDevice {
 public:
  constexpr RandomDevice() : TableDevice("random", kTable) {}

 protected:
  Result<size_t> read_file(Chan&, char* buffer, size_t size, uint64_t) override {
    random_fill(buffer, size);
    return size;
  }
};

constinit RandomDevice device;

}  // namespace

void random_fill(void* buffer, size_t size) {
  auto* to = static_cast<uint8_t*>(buffer);
  while (size > 0) {
    uint8_t output[kOutputBytes];
    {
      Guard guard(lock);
      next_block(output);
    }
    const size_t length = std::min(size, sizeof output);
    memcpy(to, output, length);
    memset(output, 0, sizeof output);
    to += length;
    size -= length;
  }
}

void random_device_init() {
  seed();
  device_register(&device);
}
