// Makes programs (program.h) for the fuzzer: at random, or by changing a program that has reached
// new places in the kernel's code (execute.h).
#pragma once

#include <vector>

#include "program.h"
#include "random.h"

class Generator {
 public:
  explicit Generator(uint64_t seed);

  // Makes a program that runs as user `uid`.
  Program next(uint32_t uid);
  // Adds `program`, which has reached new places, to the corpus. If the corpus is full, removes a
  // random program.
  void keep(const Program& program);
  size_t kept() const { return corpus_.size(); }

 private:
  static constexpr size_t kMaxCalls = 40;
  static constexpr size_t kMaxKept = 1000;

  Call call();
  Argument argument(char kind);
  Argument structure(char kind);  // a random entry of pool_structures(kind)
  Argument number(uint64_t value) { return {.pool = 0, .value = value}; }
  Argument entry(char pool);
  void fit(Call& call, size_t index);
  Program fresh();
  void change(Program& program);

  Random random_;
  unsigned total_weight_ = 0;
  std::vector<Program> initial_;  // the programs with which the corpus begins
  std::vector<Program> corpus_;
};
