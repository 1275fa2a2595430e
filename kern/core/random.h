// Unpredictable random numbers.
#pragma once

#include <cstddef>

// Fills `buffer`. Any context but NMI.
void random_fill(void* buffer, size_t size);
