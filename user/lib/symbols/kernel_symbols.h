// Names of the kernel's functions, from #mem/ksyms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

class KernelSymbols {
 public:
  // Reads #mem/ksyms. Throws std::runtime_error if that fails.
  KernelSymbols();
  // Returns "function+0x12 [kernel]", or the address if find() returns nullptr.
  std::string frame(uint64_t return_address) const;
  // Returns "function", or the address if find() returns nullptr.
  std::string name(uint64_t return_address) const;

  struct Function {
    uint64_t address;
    std::string name;
  };
  // The functions, addresses ascending.
  const std::vector<Function>& functions() const { return functions_; }
  // Returns the function whose call returns to this address, which is the last function that begins
  // before the address. nullptr if no function begins before the address.
  const Function* find(uint64_t return_address) const;

 private:
  std::vector<Function> functions_;
};

std::string hexadecimal(uint64_t number);  // "0x12"
