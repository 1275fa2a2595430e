// Precompiled, and included before everything else in each source under tests/host: GoogleTest, and
// the headers of the C++ library that use the C library's macros for error numbers.
// kern/lib/result.h undefines these macros, so later headers cannot use them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
