// A session of probes (docs/probes.md): what is given to it holds as long as this object lives, and
// nothing of it is left behind however the program ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

class ProbeSession {
 public:
  ProbeSession();  // std::runtime_error; only root can have one
  ProbeSession(const ProbeSession&) = delete;
  ProbeSession& operator=(const ProbeSession&) = delete;
  ~ProbeSession();

  // Lines for `ctl`, without their ends, in as few writes as they fit into. std::runtime_error with
  // the kernel's reason; those before may have been done.
  void command(const std::vector<std::string>& lines);
  void command(const std::string& line) { command(std::vector{line}); }
  // The name of one of its files: "#probe/1/counts".
  std::string file(std::string_view name) const { return folder_ + "/" + std::string(name); }

 private:
  int ctl_;
  std::string folder_;
};
