// Names and places of programs' functions, from their ELF files.
//
// The programs of the system are linked at fixed addresses, so an address is looked up as it is. A
// file that is not the program any more, which its build id tells, gives no names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct ProgramFunction {
  uint64_t address;
  uint64_t size;     // bytes; functions in assembler may have none
  std::string name;  // as the linker knows it: demangled() is what people read
  bool probeable;    // it begins with the place for a probe that the compiler leaves
};

struct Program {
  std::string build_id;                    // its bytes
  std::vector<ProgramFunction> functions;  // by address; one address may have several names
};

// Empty if there is no such file, or it is no program.
Program read_program(const std::string& path);

// "ns::f(int)" for "_ZN2ns1fEi"; other names as they are.
std::string demangled(const std::string& name);

class ProgramSymbols {
 public:
  // The file is read the first time that the program is asked about.
  const Program& program(const std::string& path);

  struct FunctionOffset {
    const ProgramFunction* function;
    uint64_t offset;
  };
  // Of a return address in the program `path`; nothing if it is in none of its functions, or the
  // file has another build id.
  std::optional<FunctionOffset> find(const std::string& path, std::string_view build_id,
                                     uint64_t return_address);
  // "function+0x12 [program]", or "0x401012 [program]". C++ names are demangled.
  std::string frame(const std::string& path, std::string_view build_id, uint64_t return_address);
  // "function", or "0x401012 [program]".
  std::string name(const std::string& path, std::string_view build_id, uint64_t return_address);

 private:
  std::map<std::string, Program> programs_;  // by path
};
