// Names and addresses of programs' functions, from their ELF files.
//
// Programs are linked at fixed addresses, so a return address can be looked up in the file without
// relocation. If the build id of the file differs from the build id of the running program, the
// file has been replaced, and the lookup finds nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct ProgramFunction {
  uint64_t address;
  uint64_t size;     // bytes; 0 for some functions in assembler
  std::string name;  // as in the symbol table: mangled if it is a C++ function
  bool probeable;    // the function begins with the compiler's five-byte nop, which probes replace
};

struct Program {
  std::string build_id;                    // bytes of the program's build id
  std::vector<ProgramFunction> functions;  // by address, ascending; several may share an address
};

// Returns an empty Program if the file cannot be read, or is no program.
Program read_program(const std::string& path);

// Returns "ns::f(int)" for "_ZN2ns1fEi". Names that are not mangled C++ names stay unchanged.
std::string demangled(const std::string& name);

class ProgramSymbols {
 public:
  // Reads the file at the first call with this path.
  const Program& program(const std::string& path);

  struct FunctionOffset {
    const ProgramFunction* function;
    uint64_t offset;
  };
  // Finds the function of a return address in the program `path`. Returns nothing if no function
  // contains the address, or if the file's build id is not `build_id`.
  std::optional<FunctionOffset> find(const std::string& path, std::string_view build_id,
                                     uint64_t return_address);
  // Returns "function+0x12 [program]", or "0x401012 [program]" if find() returns nothing. C++ names
  // are demangled.
  std::string frame(const std::string& path, std::string_view build_id, uint64_t return_address);
  // Returns "function", or "0x401012 [program]" if find() returns nothing. C++ names are demangled.
  std::string name(const std::string& path, std::string_view build_id, uint64_t return_address);

 private:
  std::map<std::string, Program> programs_;  // programs by path
};
