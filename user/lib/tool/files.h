// Whole files, with the kernel's reason in what is thrown.
#pragma once

#include <string>
#include <string_view>

// std::runtime_error if it cannot be read.
std::string read_file(const std::string& path);
// In one write, as control files want it. 0, or an error number that strerror explains.
int write_command(const std::string& path, std::string_view text);
