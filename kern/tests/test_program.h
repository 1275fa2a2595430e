// Runs programs from a kernel task and finds their functions by name. For tests of probes.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ns/device.h"
#include "probe/probe.h"

// An open program and its functions. The test fails if the program lacks an expected section or
// symbol.
class TestProgram {
 public:
  static constexpr size_t kMaxReturns = 8;
  struct Function {
    uint64_t address = 0, size = 0;
    uint64_t returns[kMaxReturns] = {};
    size_t return_count = 0;
    bool contains(uint64_t pc) const { return pc > address && pc <= address + size; }
  };

  explicit TestProgram(const char* path);
  ~TestProgram();
  TestProgram(const TestProgram&) = delete;
  TestProgram& operator=(const TestProgram&) = delete;

  Chan& file() { return *file_; }
  // Finds a function by its symbol. Reads the addresses of its return instructions from the section
  // .stele.returns.
  Function function(std::string_view name);

 private:
  struct Section {
    uint64_t offset, size;
  };
  Section section(std::string_view name);
  char* load(std::string_view name, size_t* size);

  Ref<Chan> file_;
  char *symbols_ = nullptr, *names_ = nullptr, *returns_ = nullptr;
  size_t symbols_size_ = 0, names_size_ = 0, returns_size_ = 0;
};

// Process 1, which never runs.
struct Process;
Process& test_process_1();

// Starts a program: the first word is its path, and all words are its arguments. Returns its PID.
// The program has no open files, its namespace has only #root, and its parent is test_process_1().
uint32_t start_program(std::initializer_list<const char*> words);
// Waits until the program has ended. Returns its status in the form of wait4.
int wait_for_program(uint32_t pid);

uint32_t start_probetest(const char* what, unsigned n = 1);
inline int wait_for_probetest(uint32_t pid) {
  return wait_for_program(pid);
}
inline int run_probetest(const char* what, unsigned n = 1) {
  return wait_for_probetest(start_probetest(what, n));
}
