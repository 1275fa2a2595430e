// A session of #probe (docs/probes.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Its probes are there until it is destroyed, or its process ends in whatever way: nothing else has the session open, and what
// is executed does not inherit it.
class ProbeSession {
 public:
  ProbeSession();  // std::runtime_error
  ProbeSession(const ProbeSession&) = delete;
  ProbeSession& operator=(const ProbeSession&) = delete;
  ~ProbeSession();

  // Lines for `ctl`, done together or not at all; std::runtime_error with the kernel's reason.
  void command(std::string_view lines) const;
  // "#probe/N/NAME".
  std::string file(std::string_view name) const;

 private:
  int control_;
  uint32_t number_ = 0;
};
