// The stacks of one source, on the screen.
#pragma once

#include <chrono>
#include <string>

#include "sources.h"
#include "stacks.h"
#include "terminal.h"

class StackView {
 public:
  // Reads the stacks of the source `name`. `references`: true if the source is a class of
  // references. Throws std::runtime_error if the stacks cannot be read.
  void open(const std::string& name, bool references);
  const std::string& name() const { return name_; }

  // Reads the stacks again. If this fails, keeps the previous stacks and throws std::runtime_error.
  void read();
  // True if the stacks should be read again although no key asks for it. The pause after a reading
  // is ten times as long as the reading, so that reading takes less than a tenth of the time.
  // Always false for references, because a dump of references stops all CPUs.
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
