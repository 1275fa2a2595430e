// Words on the kernel command line that nothing in the kernel reads.
#include <algorithm>
#include <string_view>

#include "core/boot.h"
#include "core/log.h"
#include "lib/quoted.h"

namespace {

// Every name that boot_option() is called with, in any configuration:
// tests/host/boot_words_test.py.
constexpr std::string_view kNames[] = {
    "break",   "check",   "check_panic", "contexts", "dump_records", "icount", "ktest",
    "minutes", "objects", "poll_passes", "poweroff", "rounds",       "seed",   "trace",
};

}  // namespace

void boot_report_unknown_words() {
  std::string_view rest(boot_info().command_line);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string_view name = word.substr(0, word.find('='));
    if (!word.empty() && std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames))
      klog("command line: nothing reads the word %s", Quoted(word).get());
  }
}
