// A session of probes (docs/probes.md). The session's probes stay in place as long as this object
// lives. When the program ends, the kernel removes the probes, even if a signal kills the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

class ProbeSession {
 public:
  ProbeSession();  // throws std::runtime_error if the session fails to open: only root may open one
  ProbeSession(const ProbeSession&) = delete;
  ProbeSession& operator=(const ProbeSession&) = delete;
  ~ProbeSession();

  // Writes lines, which are given without newlines, to `ctl` in as few writes as possible. If a
  // write fails, throws std::runtime_error with the kernel's reason. Lines of earlier writes stay
  // in effect.
  void command(const std::vector<std::string>& lines);
  void command(const std::string& line) { command(std::vector{line}); }
  // Returns the path of a file of this session: "#probe/1/counts".
  std::string file(std::string_view name) const { return folder_ + "/" + std::string(name); }

 private:
  int ctl_;
  std::string folder_;
};
