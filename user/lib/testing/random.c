#include "testing/random.h"

static _Thread_local uint64_t state;

void random_seed(uint64_t seed) {
  state = seed;
}
uint64_t random_any(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
uint64_t random_below(uint64_t n) {
  return random_any() % n;
}
bool random_one_in(unsigned n) {
  return random_below(n) == 0;
}
