// The machine code of programs' functions, read from their ELF files, and the addresses of the
// functions' `ret` instructions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/program_symbols.h"

class ProgramCode {
 public:
  // Reads the code of the program in the file `path`. A file that cannot be read has no code.
  explicit ProgramCode(const std::string& path);

  std::string_view code(const ProgramFunction& function) const;
  // Returns the addresses of the function's `ret` instructions, which tools/stele/returns.py wrote
  // to the section .stele.returns. Empty if the file has no such section.
  std::vector<uint64_t> returns(const ProgramFunction& function) const;

 private:
  struct Section {
    uint64_t address, offset, size;
  };
  void add_returns(std::string_view section);

  std::string file_;
  std::vector<Section> sections_;  // sections with instructions
  std::vector<uint64_t> returns_;  // addresses of all `ret` instructions, ascending
};

// Returns the word that names a function in the commands of a probe session (docs/probes.md):
// PATH:ADDRESS:NAME, or PATH:ADDRESS:NAME:RETURN,RETURN… if `returns` is true. RETURN is the
// address of a `ret` instruction of the function. C++ names are mangled, so that they have no
// blanks.
std::string probe_name(const std::string& path, const ProgramCode& code,
                       const ProgramFunction& function, bool returns);
