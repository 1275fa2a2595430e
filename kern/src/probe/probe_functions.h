// The functions of a session of #probe: as they were named, and what to do when one is hit.
//
// Each naming is kept as it came, so that commands that fail can be taken back by forgetting the
// last of them; what is probed follows from all together, when the session is first started: one
// rule for each function, whose number is the tag of its probe.
#pragma once

#include <cstdint>
#include <span>

#include "probe/probe.h"
#include "probe/probe_command.h"
#include "probe/probe_rule.h"
#include "store/page_buffer.h"

class ProbeFunctions {
 public:
  struct Program {
    uint32_t path;   // in the texts
    uint32_t first;  // of its probes
    uint32_t count = 0;
  };

  // Adds what one of the five commands with functions names. ENOENT if that is nothing, EINVAL,
  // ENOMEM; each with an error string, and with a part of them added. May sleep.
  Result<void> add(const ProbeCommand& command);
  // For taking back what was added meanwhile.
  struct Mark {
    uint32_t namings, programs, texts, returns;
  };
  Mark mark() const { return {namings_.count, programs_.count, texts_.count, returns_.count}; }
  void restore(const Mark& mark);
  // The namings of a write are over: what made finding them fast goes.
  void forget_index() { index_ = {}, index_count_ = 0; }
  bool empty() const { return namings_.count == 0; }

  // Makes the rules and the probes, after which nothing is added. EINVAL if a function is to do
  // what does not go together, ENOMEM.
  Result<void> build();
  uint32_t rule_count() const { return rule_count_; }
  const ProbeRule* rules() const { return rules_.data(); }
  std::span<const KernelProbe> kernel_probes() { return {kernel_probes_.data(), kernel_count_}; }
  std::span<const Program> programs() { return {programs_.items.data(), programs_.count}; }
  std::span<const UserProbe> probes_of(const Program& program) {
    return {user_probes_.data() + program.first, program.count};
  }
  const char* path_of(const Program& program) { return &texts_.items[program.path]; }
  // From now on what does nothing but counting a kernel function does it plainly, or not. Hits may
  // come meanwhile.
  void count_plainly(bool plainly);
  // Those of all rules.
  uint8_t actions() const { return all_actions_; }

 private:
  static constexpr uint32_t kKernel = UINT32_MAX;

  struct Naming {
    uint64_t place;    // of a kernel function its number, of a program's its address
    uint32_t program;  // kKernel for kernel functions
    uint32_t name;     // in the texts, of a program's
    uint32_t first_return, return_count;
    ProbeRule rule;  // without name
  };

  // Items that are added at the end.
  template <typename T>
  struct Growing {
    PageBuffer<T> items;
    uint32_t count = 0;

    Result<void> add(const T& item) {
      if (count == items.capacity()) TRY(items.reserve(2 * size_t{count} + 1, count));
      items[count++] = item;
      return {};
    }
  };

  Result<void> add_kernel(std::string_view pattern, const ProbeRule& rule);
  Result<void> add_user(const ProbeFunctionName& function, ProbeRule rule);
  Result<uint32_t> add_text(std::string_view text);
  Result<uint32_t> find_program(std::string_view path);
  Result<void> make_index();
  Result<void> merge(ProbeRule& rule, const Naming& naming);

  Growing<Naming> namings_;
  Growing<Program> programs_;
  Growing<char> texts_;
  Growing<uint64_t> returns_;
  PageBuffer<uint32_t> index_;  // kernel functions by name
  uint32_t index_count_ = 0;

  PageBuffer<ProbeRule> rules_;
  uint32_t rule_count_ = 0;
  PageBuffer<KernelProbe> kernel_probes_;
  uint32_t kernel_count_ = 0;
  PageBuffer<UserProbe> user_probes_;
  uint8_t all_actions_ = 0;
};
