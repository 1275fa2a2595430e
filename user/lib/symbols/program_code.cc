#include "symbols/program_code.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "symbols/elf.h"
#include "tool/files.h"

namespace {

constexpr uint64_t kInstructions = 4;  // section flag SHF_EXECINSTR

struct ReturnsHeader {
  char magic[4];
  uint32_t version;
  uint64_t count;
};

std::string digits(uint64_t number) {
  char text[16];
  return {text, std::to_chars(text, text + sizeof(text), number, 16).ptr};
}

}  // namespace

ProgramCode::ProgramCode(const std::string& path) {
  try {
    file_ = read_file(path);
  } catch (const std::runtime_error&) {
    return;
  }
  const auto header = elf::at<elf::FileHeader>(file_, 0);
  if (!header) return;
  const auto section_at = [&](uint32_t index) {
    return elf::at<elf::SectionHeader>(
        file_, header->section_headers + uint64_t{index} * header->section_header_size);
  };
  const auto names = section_at(header->names);
  for (uint32_t i = 0; i < header->section_header_count; i++) {
    const auto section = section_at(i);
    if (!section || !names) break;
    if ((section->flags & kInstructions) != 0)
      sections_.push_back({section->address, section->offset, section->size});
    const std::string_view name = elf::part(file_, names->offset + section->name, names->size);
    if (name.substr(0, name.find('\0')) == ".stele.returns") {
      add_returns(elf::part(file_, section->offset, section->size));
    }
  }
}

void ProgramCode::add_returns(std::string_view section) {
  const auto header = elf::at<ReturnsHeader>(section, 0);
  if (!header || std::string_view(header->magic, sizeof(header->magic)) != "SRET" ||
      header->version != 1)
    return;
  for (uint64_t i = 0; i < header->count; i++) {
    const auto address = elf::at<uint64_t>(section, sizeof(ReturnsHeader) + i * sizeof(uint64_t));
    if (!address) break;
    returns_.push_back(*address);
  }
}

std::string_view ProgramCode::code(const ProgramFunction& function) const {
  for (const Section& section : sections_) {
    if (function.address < section.address || function.address - section.address >= section.size)
      continue;
    return elf::part(file_, section.offset + (function.address - section.address), function.size);
  }
  return {};
}

std::vector<uint64_t> ProgramCode::returns(const ProgramFunction& function) const {
  const auto first = std::lower_bound(returns_.begin(), returns_.end(), function.address);
  return {first, std::lower_bound(first, returns_.end(), function.address + function.size)};
}

std::string probe_name(const std::string& path, const ProgramCode& code,
                       const ProgramFunction& function, bool returns) {
  std::string name = path + ":" + digits(function.address) + ":" + function.name;
  if (!returns) return name;
  char before = ':';
  for (const uint64_t address : code.returns(function)) {
    name += before + digits(address);
    before = ',';
  }
  return name;
}
