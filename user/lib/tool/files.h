// Reads and writes whole files. Exceptions carry the kernel's reason.
#pragma once

#include <functional>
#include <string>
#include <string_view>

// Returns the file's contents. Throws std::runtime_error if the file cannot be read.
std::string read_file(const std::string& path);
// Calls `line` with each line, without its newline. Does not hold the whole file in memory. Throws
// std::runtime_error if the file cannot be read.
void read_lines(const std::string& path, const std::function<void(std::string_view)>& line);
// Like read_lines(), but stops reading as soon as `line` returns false.
void read_lines_while(const std::string& path, const std::function<bool(std::string_view)>& line);
// Writes the text in one call, as control files require. Returns 0, or an error number that
// strerror explains.
int write_command(const std::string& path, std::string_view text);
