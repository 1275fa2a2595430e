// The stacks of one source, on the screen.
#pragma once

#include <chrono>
#include <string>

#include "sources.h"
#include "stacks.h"
#include "terminal.h"

class StackView {
 public:
  // Reads the stacks of `name`, a kind of references or not. read() says what is wrong.
  void open(const std::string& name, bool references);
  const std::string& name() const { return name_; }

  // Reads the stacks again. std::runtime_error if that fails; those of before stay then.
  void read();
  // Whether the stacks should be read again by themselves. A dump of references stops all CPUs, so
  // these are read only when somebody asks; and no more than a tenth of the time goes into dumps.
  bool due() const;

  void scroll(long by);
  void scroll_to_top() { first_ = 0; }
  // All rows but the last two. `source` may be nullptr, when it is gone.
  void draw(Terminal& terminal, const Source* source);

 private:
  std::string name_;
  bool references_ = false;
  TopStacks stacks_;
  std::chrono::steady_clock::time_point next_;
  std::size_t first_ = 0;  // line that is shown first
};
