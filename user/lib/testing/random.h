/* Random numbers of test programs, from a seed: SplitMix64 (Steele, Lea & Flood, OOPSLA 2014). Each
 * thread has its own sequence, which begins at seed 0. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void random_seed(uint64_t seed);
uint64_t random_any(void);         /* 64 random bits */
uint64_t random_below(uint64_t n); /* 0 to n - 1; n > 0 */
bool random_one_in(unsigned n);    /* true with probability 1/n; n > 0 */
