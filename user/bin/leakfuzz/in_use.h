// Finds files that the kernel takes for open although nobody has them open.
#pragma once

#include <string>

// True if the regular file cannot be executed because it is open for writing (ETXTBSY). The caller
// ensures that no process has it open. Changes the mode of the file.
bool is_in_use(const std::string& path);
