// What runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

std::vector<uint32_t> process_ids();
// The path of the ELF file that the process runs; nothing if there is no such process.
std::optional<std::string> program_of_process(uint32_t pid);
