// The stacks of one source, on the screen.
#pragma once

#include <chrono>
#include <string>

#include "sources.h"
#include "stacks.h"
#include "terminal.h"

class StackView {
 public:
  // Reads the stacks of `name`, a kind of references or not. read() returns the error.
  void open(const std::string& name, bool references);
  const std::string& name() const { return name_; }

  // Reads the stacks again. std::runtime_error if that fails; the previous stacks stay.
  void read();
  // Should the stacks be refreshed automatically? A dump of references stops all CPUs, so these are
  // read only on request; and dumps take at most a tenth of the time.
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
  std::size_t first_ = 0;  // the first line shown
};
