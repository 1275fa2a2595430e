// The instructions of programs' functions, as their ELF files have them, and where those return.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/program_symbols.h"

class ProgramCode {
 public:
  // Of the program in the file `path`; nothing is in it if there is none.
  explicit ProgramCode(const std::string& path);

  std::string_view code(const ProgramFunction& function) const;
  // Addresses of its `ret` instructions: those of the section .stele.returns
  // (tools/stele/returns.py). None if the file has no such section.
  std::vector<uint64_t> returns(const ProgramFunction& function) const;

 private:
  struct Section {
    uint64_t address, offset, size;
  };
  void add_returns(std::string_view section);

  std::string file_;
  std::vector<Section> sections_;  // with instructions
  std::vector<uint64_t> returns_;  // ascending
};

// PATH:ADDRESS:NAME:RETURN,… as commands of a session of probes name it (docs/probes.md); without
// `returns` not with them. C++ names are the linker's, which have no blanks.
std::string probe_name(const std::string& path, const ProgramCode& code,
                       const ProgramFunction& function, bool returns);
