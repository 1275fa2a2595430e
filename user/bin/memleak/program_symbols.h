// Names of programs' functions, from the symbol tables of their ELF files.
//
// The programs of the system are linked at fixed addresses, so an address is looked up as it is. A file that is not the
// program any more, which its build id tells, gives no names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

class ProgramSymbols {
 public:
  // Of a return address in the program `path`: "function+0x12 [program]", or "0x401012 [program]". C++ names are
  // demangled. The file is read the first time that the program is asked about.
  std::string frame(const std::string& path, std::string_view build_id, uint64_t return_address);
  // "function", or "0x401012 [program]".
  std::string name(const std::string& path, std::string_view build_id, uint64_t return_address);

 private:
  struct Function {
    uint64_t address;
    uint64_t size;  // bytes
    std::string name;
  };
  struct Program {
    std::string build_id;
    std::vector<Function> functions;  // by address
  };
  static Program load(const std::string& path);
  static Program parse(std::string_view file);
  const Function* find(const std::string& path, std::string_view build_id, uint64_t return_address);

  std::map<std::string, Program> programs_;  // by path
};
