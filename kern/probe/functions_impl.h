// The probed functions of a session of #probe, and the actions of hits on these functions.
//
// A request is one function that a command has named or matched, with its actions. Requests are
// stored in order, so a failed command is undone by removing the last requests. The first start of
// the session builds the probes from all requests, and makes one rule for each function. The rule's
// number is the tag of the function's probe.
#pragma once

#include <cstdint>
#include <span>

#include "intern/page_buffer.h"
#include "probe/command_impl.h"
#include "probe/probe.h"
#include "probe/rule_impl.h"

class ProbeCaller;

class ProbeFunctions {
 public:
  // The most requests of a session, so that build() takes a bounded time.
  static constexpr size_t kMaxRequests = size_t{1} << 18;

  struct Program {
    uint32_t path;   // index in texts_
    uint32_t first;  // index in user_probes_ of the program's first probe
    uint32_t count = 0;
  };

  // Adds the functions of a command that names functions: count, event, event+return, alloc or
  // free. ENOENT if nothing matches, ENOSPC after kMaxRequests functions, EINVAL, ENOMEM; each with
  // an error string. EINTR if the caller is ending. After an error, some of the functions may have
  // been added. May sleep.
  Result<void> add(const ProbeCommand& command, ProbeCaller& caller);
  // A state to which restore() returns.
  struct Checkpoint {
    size_t requests, programs, texts, returns;
  };
  Checkpoint checkpoint() const {
    return {requests_.size(), programs_.size(), texts_.size(), returns_.size()};
  }
  void restore(const Checkpoint& checkpoint);
  // Called at the end of a write: frees the index of kernel functions.
  void forget_index() { heads_ = {}, next_ = {}, index_mask_ = 0; }
  bool empty() const { return requests_.empty(); }

  // Makes the rules and the probes; nothing can be added afterwards. EINVAL if a function has
  // incompatible actions, ENOMEM.
  Result<void> build();
  uint32_t rule_count() const { return rule_count_; }
  const ProbeRule* rules() const { return rules_.data(); }
  std::span<const KernelProbe> kernel_probes() { return {kernel_probes_.data(), kernel_count_}; }
  std::span<const Program> programs() { return {programs_.data(), programs_.size()}; }
  std::span<const UserProbe> probes_of(const Program& program) {
    return {user_probes_.data() + program.first, program.count};
  }
  const char* path_of(const Program& program) { return &texts_[program.path]; }
  // Changes the rules of kernel functions whose only action is to count. If `plainly` is true,
  // kProbeCounts becomes kProbeCountsPlainly; if it is false, kProbeCountsPlainly becomes
  // kProbeCounts. Hits may come meanwhile.
  void count_plainly(bool plainly);
  // The bits of the actions of all rules.
  uint8_t actions() const { return all_actions_; }

 private:
  static constexpr uint32_t kKernel = UINT32_MAX;

  struct Request {
    uint64_t function;  // number of a kernel function, or address of a program's function
    uint32_t program;   // kKernel for kernel functions
    uint32_t name;      // name of a program's function, an index in texts_
    uint32_t first_return, return_count;  // the function's `ret`s in returns_: index and number
    ProbeRule rule;                       // its `name` is not set
  };

  Result<void> add_request(const Request& request);
  Result<void> add_kernel(std::string_view pattern, const ProbeRule& rule);
  Result<void> add_user(const ProbeFunctionName& function, ProbeRule rule);
  Result<uint32_t> add_text(std::string_view text);
  Result<uint32_t> find_program(std::string_view path);
  Result<void> make_index();
  Result<void> merge(ProbeRule& rule, const Request& request);

  PageVector<Request> requests_;
  PageVector<Program> programs_;
  PageVector<char> texts_;
  PageVector<uint64_t> returns_;
  // A hash table of the kernel functions by name: chains of their numbers, plus 1, which end in 0.
  PageBuffer<uint32_t> heads_, next_;
  uint32_t index_mask_ = 0;  // number of chains, less 1; 0 before make_index()

  PageBuffer<ProbeRule> rules_;
  uint32_t rule_count_ = 0;
  PageBuffer<KernelProbe> kernel_probes_;
  uint32_t kernel_count_ = 0;
  PageBuffer<UserProbe> user_probes_;
  uint8_t all_actions_ = 0;
};
