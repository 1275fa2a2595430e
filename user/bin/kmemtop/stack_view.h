// The stacks of one source, on the screen.
#pragma once

#include <chrono>
#include <string>

#include "sources.h"
#include "stacks.h"
#include "terminal.h"

class StackView {
 public:
  // Reads the stacks of the source `name`. `references`: true if the source is a kind of
  // references. std::runtime_error as from read().
  void open(const std::string& name, bool references);
  const std::string& name() const { return name_; }

  // Reads the stacks again. std::runtime_error if that fails; the previous stacks stay.
  void read();
  // True if it is time to read the stacks again, without waiting for a key. Reading is spaced so
  // that it takes at most a tenth of the time. Always false for references, whose dump stops all
  // CPUs.
  bool due() const;

  void scroll(long by);
  void scroll_to_top() { first_ = 0; }
  // Draws on all rows but the last two. `source`: nullptr if the source is gone.
  void draw(Terminal& terminal, const Source* source);

 private:
  std::string name_;
  bool references_ = false;
  TopStacks stacks_;
  std::chrono::steady_clock::time_point next_;
  std::size_t first_ = 0;  // index of the first line shown
};
