// Comes before everything else in each source under tests/host, precompiled: GoogleTest and the
// headers of the C++ library that use the C library's macros for error numbers. kern/lib/result.h
// takes these names away from the macros, so that nothing that is included after it can use them.
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
