// Names of the kernel's functions, from #mem/ksyms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

class KernelSymbols {
 public:
  // std::runtime_error if the file cannot be read.
  KernelSymbols();
  // Of a return address: "function+0x12 [kernel]", or the address.
  std::string frame(uint64_t return_address) const;
  // "function", or the address.
  std::string name(uint64_t return_address) const;

 private:
  struct Function {
    uint64_t address;
    std::string name;
  };
  const Function* find(uint64_t return_address) const;

  std::vector<Function> functions_;  // by address
};

std::string hexadecimal(uint64_t number);  // "0x12"
