// Whole files, with the kernel's reason in what is thrown.
#pragma once

#include <functional>
#include <string>
#include <string_view>

// std::runtime_error if it cannot be read.
std::string read_file(const std::string& path);
// The same line by line, without their ends, for what is better not had in memory as a whole.
void read_lines(const std::string& path, const std::function<void(std::string_view)>& line);
// The same until `line` returns false; what is behind that is not read.
void read_lines_while(const std::string& path, const std::function<bool(std::string_view)>& line);
// In one write, as control files want it. 0, or an error number that strerror explains.
int write_command(const std::string& path, std::string_view text);
