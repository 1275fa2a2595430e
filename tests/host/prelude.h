// A precompiled header with GoogleTest and headers of the C++ library. Each C++ source under
// tests/host includes it before everything else, because some of these headers use the C library's
// macros for error numbers, and kern/lib/result.h undefines these macros.
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
