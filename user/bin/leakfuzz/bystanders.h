// Bystanders: processes that have nothing to do with the programs of the fuzzer, and that no
// program may harm.
//
// A bystander has a user of its own: root, or a user as whom no program runs. While a batch runs,
// the bystander computes for a moment at intervals. At the end of the batch it reports. These are
// findings:
//
//   death      it has ended
//   starved    it does not report although the fuzzer has waited for it a few hundred times
//   uncharged  it has computed for longer than the kernel has charged it
//
// Only quantities of the guest are compared, so a host that is slow or busy causes no finding.
// Between two batches bystanders sleep.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

class Bystanders {
 public:
  // Starts a bystander for each user. They end when this process does.
  explicit Bystanders(const std::vector<uint32_t>& uids);

  // Lets all of them work.
  void begin();
  // Takes the reports of all of them, which then sleep. Returns the findings, each as "KIND TEXT".
  std::vector<std::string> end();

 private:
  struct Bystander {
    uint32_t uid;
    int pid, requests, reports;  // pipes to the bystander and from it
  };

  std::vector<Bystander> bystanders_;
};
