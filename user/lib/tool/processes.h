// Facts about processes, from /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Returns the PIDs of all processes.
std::vector<uint32_t> process_ids();
// Returns the path of the ELF file that the process runs; nothing if there is no such process.
std::optional<std::string> program_of_process(uint32_t pid);
