#include "symbols/program_symbols.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "symbols/elf.h"
#include "symbols/kernel_symbols.h"
#include "tool/files.h"

namespace {

using namespace elf;

constexpr std::string_view kProbeNop("\x0f\x1f\x44\x00\x00", 5);  // nopl 0(%rax,%rax,1)

std::string build_id_in(std::string_view notes) {
  constexpr auto padded = [](uint64_t size) { return (size + 3) / 4 * 4; };
  for (uint64_t offset = 0; const auto note = at<NoteHeader>(notes, offset);) {
    const uint64_t name = offset + sizeof(NoteHeader), description = name + padded(note->name_size);
    if (note->type == kBuildId &&
        part(notes, name, note->name_size) == std::string_view("GNU", 4)) {
      return std::string(part(notes, description, note->description_size));
    }
    offset = description + padded(note->description_size);
  }
  return {};
}

std::string with_program(uint64_t address, const std::string& path) {
  return hexadecimal(address) + " [" + path.substr(path.rfind('/') + 1) + "]";
}

Program parse(std::string_view file) {
  Program program;
  const auto header = at<FileHeader>(file, 0);
  if (!header || !file.starts_with("\x7f"
                                   "ELF"))
    return program;
  const auto section_at = [&](uint32_t index) {
    return at<SectionHeader>(
        file, header->section_headers + uint64_t{index} * header->section_header_size);
  };
  for (uint32_t i = 0; i < header->section_header_count; i++) {
    const auto section = section_at(i);
    if (!section) break;
    const std::string_view contents = part(file, section->offset, section->size);
    if (section->type == kNotes && program.build_id.empty())
      program.build_id = build_id_in(contents);
    const auto strings = section_at(section->link);
    if (section->type != kSymbolTable || !strings) continue;
    const std::string_view names = part(file, strings->offset, strings->size);
    for (uint64_t offset = 0; const auto symbol = at<SymbolEntry>(contents, offset);
         offset += sizeof(SymbolEntry)) {
      if ((symbol->info & 0xf) != kFunction || symbol->section == 0) continue;
      const std::string_view name = part(names, symbol->name, names.size());
      const auto code = section_at(symbol->section);
      const bool probeable = code && part(file, code->offset + (symbol->value - code->address),
                                          kProbeNop.size()) == kProbeNop;
      program.functions.push_back(
          {symbol->value, symbol->size, std::string(name.substr(0, name.find('\0'))), probeable});
    }
  }
  std::stable_sort(
      program.functions.begin(), program.functions.end(),
      [](const ProgramFunction& a, const ProgramFunction& b) { return a.address < b.address; });
  return program;
}

}  // namespace

Program read_program(const std::string& path) {
  try {
    return parse(read_file(path));
  } catch (const std::runtime_error&) {
    return {};
  }
}

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

const Program& ProgramSymbols::program(const std::string& path) {
  auto known = programs_.find(path);
  if (known == programs_.end()) known = programs_.emplace(path, read_program(path)).first;
  return known->second;
}

// Looks up `return_address - 1`, which is in the call: the return address may already belong to the
// next function.
std::optional<ProgramSymbols::FunctionOffset> ProgramSymbols::find(const std::string& path,
                                                                   std::string_view build_id,
                                                                   uint64_t return_address) {
  const Program& in = program(path);
  if (in.build_id != build_id) return {};
  const auto after = std::upper_bound(
      in.functions.begin(), in.functions.end(), return_address - 1,
      [](uint64_t address, const ProgramFunction& f) { return address < f.address; });
  if (after == in.functions.begin()) return {};
  const ProgramFunction& function = after[-1];
  const uint64_t offset = return_address - function.address;
  if (function.size != 0 && offset > function.size) return {};
  return FunctionOffset{&function, offset};
}

std::string ProgramSymbols::frame(const std::string& path, std::string_view build_id,
                                  uint64_t return_address) {
  const auto place = find(path, build_id, return_address);
  if (!place) return with_program(return_address, path);
  return demangled(place->function->name) + "+" + with_program(place->offset, path);
}

std::string ProgramSymbols::name(const std::string& path, std::string_view build_id,
                                 uint64_t return_address) {
  const auto place = find(path, build_id, return_address);
  return place ? demangled(place->function->name) : with_program(return_address, path);
}
