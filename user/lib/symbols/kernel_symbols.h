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

  struct Function {
    uint64_t address;
    std::string name;
  };
  // By address.
  const std::vector<Function>& functions() const { return functions_; }
  // Of a return address: the function that the call is in; nullptr if there is none.
  const Function* find(uint64_t return_address) const;

 private:
  std::vector<Function> functions_;
};

std::string hexadecimal(uint64_t number);  // "0x12"
