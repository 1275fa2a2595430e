// Makes programs: at random, or by changing one that has reached something new before.
#pragma once

#include <vector>

#include "program.h"
#include "random.h"

class Generator {
 public:
  explicit Generator(uint64_t seed);

  Program next(uint32_t uid);
  // It has reached what no program before it had.
  void keep(const Program& program);
  size_t kept() const { return corpus_.size(); }

 private:
  static constexpr size_t kMaxCalls = 40;
  static constexpr size_t kMaxKept = 1000;

  Call call();
  Argument argument(char kind);
  Argument structure(char kind);  // of those of pool_structures
  Argument number(uint64_t value) { return {.pool = 0, .value = value}; }
  Argument entry(char pool);
  Program fresh();
  void change(Program& program);

  Random random_;
  unsigned total_weight_ = 0;
  std::vector<Program> corpus_;
};
