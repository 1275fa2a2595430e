// The command of -c.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

// A process that waits before its first instruction until go(). Blanks separate the command's
// words, without quoting, as in the original.
class Child {
 public:
  // Finds the program as a shell does. std::runtime_error if there is none, or no process can be
  // made.
  explicit Child(const std::string& command);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // Ends the process if it has not been let go; otherwise it goes on.
  ~Child();

  pid_t pid() const { return pid_; }
  // The ELF file that will run: for a script, its interpreter's.
  const std::string& program() const { return program_; }
  // std::runtime_error if the program cannot be run after all.
  void go();
  // Its wait status, as from waitpid; waits for its end.
  int status();

 private:
  [[noreturn]] void run(int may_go, int failure) const;

  std::vector<std::string> words_;
  std::string path_, program_;
  pid_t pid_ = -1;
  int go_ = -1;       // a byte written here lets it go
  int failure_ = -1;  // where the error number of its exec is read
  std::optional<int> status_;
};
