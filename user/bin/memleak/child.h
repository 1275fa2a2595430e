// The process that runs the command of memleak's option -c.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

// A process that executes the command when go() is called. Blanks separate the command's words.
// Quotes have no special meaning, as in bcc's memleak.
class Child {
 public:
  // Finds the program as a shell does. std::runtime_error if there is no such program, or no
  // process can be created.
  explicit Child(const std::string& command);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // Ends the process if go() was never called; otherwise the process continues to run.
  ~Child();

  pid_t pid() const { return pid_; }
  // Path of the ELF file that will run. If the command is a script, this is its interpreter.
  const std::string& program() const { return program_; }
  // Makes the child execute the command. std::runtime_error if that fails.
  void go();
  // Waits for the end of the child. Returns the status that waitpid gives.
  int status();

 private:
  [[noreturn]] void run(int may_go, int failure) const;

  std::vector<std::string> words_;
  std::string path_, program_;
  pid_t pid_ = -1;
  int go_ = -1;       // pipe to the child: a byte makes it call exec
  int failure_ = -1;  // pipe from the child: errno if its exec fails
  std::optional<int> status_;
};
