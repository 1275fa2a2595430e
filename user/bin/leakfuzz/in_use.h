// Finds files that the kernel takes for open although nobody has them open.
#pragma once

#include <string>
#include <vector>

// Returns the regular files below `path` that cannot be executed because they are open for writing
// (ETXTBSY). The caller ensures that no process has any of them open. Changes the modes of the
// files.
std::vector<std::string> files_in_use(const std::string& path);
