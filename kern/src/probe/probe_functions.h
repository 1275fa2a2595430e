// The functions of a session of #probe, as users named them, and the actions of their hits.
//
// Each request is kept as it came, so that a failed command is undone by dropping the last ones.
// The probes follow from all requests together, when the session is first started: one rule for
// each function, whose number is the tag of its probe.
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
    uint32_t path;   // index in the texts
    uint32_t first;  // of its probes
    uint32_t count = 0;
  };

  // Adds the functions of one of the five commands that name some. ENOENT if nothing matches,
  // EINVAL, ENOMEM; each with an error string, and after adding some of them. May sleep.
  Result<void> add(const ProbeCommand& command);
  // A state to which restore() returns.
  struct Mark {
    uint32_t namings, programs, texts, returns;
  };
  Mark mark() const { return {namings_.count, programs_.count, texts_.count, returns_.count}; }
  void restore(const Mark& mark);
  // Called at the end of a write: frees the index of kernel functions.
  void forget_index() { index_ = {}, index_count_ = 0; }
  bool empty() const { return namings_.count == 0; }

  // Makes the rules and the probes; nothing can be added afterwards. EINVAL if a function has
  // incompatible actions, ENOMEM.
  Result<void> build();
  uint32_t rule_count() const { return rule_count_; }
  const ProbeRule* rules() const { return rules_.data(); }
  std::span<const KernelProbe> kernel_probes() { return {kernel_probes_.data(), kernel_count_}; }
  std::span<const Program> programs() { return {programs_.items.data(), programs_.count}; }
  std::span<const UserProbe> probes_of(const Program& program) {
    return {user_probes_.data() + program.first, program.count};
  }
  const char* path_of(const Program& program) { return &texts_.items[program.path]; }
  // Switches rules that only count kernel functions to plain counting, or back. Hits may come
  // meanwhile.
  void count_plainly(bool plainly);
  // The actions of all rules.
  uint8_t actions() const { return all_actions_; }

 private:
  static constexpr uint32_t kKernel = UINT32_MAX;

  struct Naming {
    uint64_t place;    // number of a kernel function, address of a program's
    uint32_t program;  // kKernel for kernel functions
    uint32_t name;     // of a program's function, in the texts
    uint32_t first_return, return_count;
    ProbeRule rule;  // without name
  };

  // An array that grows at its end.
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
