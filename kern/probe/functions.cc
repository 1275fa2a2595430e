#include "probe/functions_impl.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/errstr.h"
#include "lib/hash.h"
#include "lib/quoted.h"
#include "lib/string.h"
#include "probe/session.h"

namespace {

ProbeRule rule_of(const ProbeCommand& command) {
  ProbeRule rule = {};
  switch (command.word) {
    case ProbeWord::kCount:
      rule.actions = kProbeCounts;
      break;
    case ProbeWord::kEvent:
      rule.actions = kProbeCallEvent;
      break;
    case ProbeWord::kEventReturn:
      rule.actions = kProbeCallEvent | kProbeReturnEvent;
      break;
    case ProbeWord::kAlloc:
      rule.actions = kProbeAllocates;
      rule.alloc = command.rule;
      break;
    default:
      rule.actions = kProbeFrees;
      rule.address = command.address;
  }
  return rule;
}

Errno no_match(std::string_view pattern) {
  return fail(Errno::ENOENT, "0 functions matched by \"%.*s\"",
              static_cast<int>(std::min<size_t>(pattern.size(), 64)), pattern.data());
}

Errno no_memory() {
  return fail(Errno::ENOMEM, "no memory for so many functions");
}

}  // namespace

Result<void> ProbeFunctions::add(const ProbeCommand& command, ProbeCaller& caller) {
  const ProbeRule rule = rule_of(command);
  std::string_view functions = command.functions;
  ProbeFunctionName function;
  while (TRY(probe_next_function(&functions, &function))) {
    if (caller.is_ending()) return Errno::EINTR;
    TRY(function.user ? add_user(function, rule) : add_kernel(function.name, rule));
  }
  return {};
}

void ProbeFunctions::restore(const Checkpoint& checkpoint) {
  requests_.shrink(checkpoint.requests);
  programs_.shrink(checkpoint.programs);
  texts_.shrink(checkpoint.texts);
  returns_.shrink(checkpoint.returns);
}

Result<void> ProbeFunctions::add_request(const Request& request) {
  if (requests_.size() == kMaxRequests)
    return fail(Errno::ENOSPC, "a session has at most %zu functions", kMaxRequests);
  return requests_.push(request) ? Result<void>() : no_memory();
}

Result<void> ProbeFunctions::add_kernel(std::string_view pattern, const ProbeRule& rule) {
  if (rule.alloc.result != 0) {
    return fail(Errno::EINVAL, "%s: result=*N is for functions of programs", Quoted(pattern).get());
  }
  const auto before = static_cast<uint32_t>(requests_.size());
  const auto add = [&](uint32_t function) {
    return add_request({.function = function,
                        .program = kKernel,
                        .name = 0,
                        .first_return = 0,
                        .return_count = 0,
                        .rule = rule});
  };
  if (pattern.find_first_of("*?") != pattern.npos) {
    const uint32_t count = kernel_function_count();
    for (uint32_t i = 0; i < count; i++) {
      if (probe_matches(pattern, kernel_function(i).name)) TRY(add(i));
    }
  } else {
    TRY(make_index());
    const uint32_t chain = hash_of(pattern, 0) & index_mask_;
    for (uint32_t i = heads_[chain]; i != 0; i = next_[i - 1]) {
      if (pattern == kernel_function(i - 1).name) TRY(add(i - 1));
    }
  }
  if (requests_.size() == before) return no_match(pattern);
  return {};
}

// A session may name many functions one by one. The kernel functions are hashed, not sorted: each
// comparison of a sort calls a dozen functions, and other sessions may probe them all.
Result<void> ProbeFunctions::make_index() {
  if (index_mask_ > 0) return {};
  const uint32_t count = kernel_function_count(), chains = std::bit_ceil(std::max(count, 2u));
  if (!heads_.reserve(chains) || !next_.reserve(count)) return no_memory();
  memset(heads_.data(), 0, chains * sizeof(uint32_t));
  index_mask_ = chains - 1;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t& head = heads_[hash_of(kernel_function(i).name, 0) & index_mask_];
    next_[i] = std::exchange(head, i + 1);
  }
  return {};
}

Result<uint32_t> ProbeFunctions::add_text(std::string_view text) {
  const auto place = static_cast<uint32_t>(texts_.size());
  for (const char c : text) {
    if (!texts_.push(c)) return no_memory();
  }
  if (!texts_.push('\0')) return no_memory();
  return place;
}

// Searches backwards: functions of one program usually follow each other.
Result<uint32_t> ProbeFunctions::find_program(std::string_view path) {
  for (auto i = static_cast<uint32_t>(programs_.size()); i-- > 0;) {
    if (path == &texts_[programs_[i].path]) return i;
  }
  const uint32_t text = TRY(add_text(path));
  if (!programs_.push({.path = text, .first = 0})) return no_memory();
  return static_cast<uint32_t>(programs_.size()) - 1;
}

Result<void> ProbeFunctions::add_user(const ProbeFunctionName& function, ProbeRule rule) {
  const bool wants_returns = (rule.actions & (kProbeAllocates | kProbeReturnEvent)) != 0;
  if (wants_returns && function.returns.empty()) {
    return fail(Errno::EINVAL,
                "%s: its `ret` instructions are missing: PATH:ADDRESS:NAME:RETURN,RETURN...",
                Quoted(function.name).get());
  }
  rule.user = true;
  if ((rule.actions & kProbeCallEvent) != 0 && !function.returns.empty())
    rule.actions |= kProbeReturnEvent;
  Request request = {.function = function.address,
                     .program = TRY(find_program(function.path)),
                     .name = TRY(add_text(function.name)),
                     .first_return = static_cast<uint32_t>(returns_.size()),
                     .return_count = 0,
                     .rule = rule};
  if ((rule.actions & (kProbeAllocates | kProbeReturnEvent)) != 0) {
    std::string_view returns = function.returns;
    uint64_t address = 0;
    while (probe_next_return(&returns, &address)) {
      if (!returns_.push(address)) return no_memory();
    }
    request.return_count = static_cast<uint32_t>(returns_.size()) - request.first_return;
  }
  return add_request(request);
}

Result<void> ProbeFunctions::merge(ProbeRule& rule, const Request& request) {
  const uint8_t before = rule.actions;
  rule.actions |= request.rule.actions;
  constexpr uint8_t kEither = kProbeAllocates | kProbeFrees;
  if ((request.rule.actions & kEither) == 0) return {};
  if ((before & kEither) == 0) {
    rule.alloc = request.rule.alloc;
    rule.address = request.rule.address;
    return {};
  }
  if ((rule.actions & kEither) != kEither && rule.alloc == request.rule.alloc &&
      rule.address == request.rule.address)
    return {};
  const char* name = request.program == kKernel
                         ? kernel_function(static_cast<uint32_t>(request.function)).name
                         : &texts_[request.name];
  return fail(Errno::EINVAL, "%s cannot allocate or free in two ways", Quoted(name).get());
}

Result<void> ProbeFunctions::build() {
  rule_count_ = kernel_count_ = 0;
  all_actions_ = 0;
  const auto count = static_cast<uint32_t>(requests_.size());
  PageBuffer<uint32_t> order;
  if (!order.reserve(count) || !rules_.reserve(count) || !kernel_probes_.reserve(count) ||
      !user_probes_.reserve(count)) {
    return no_memory();
  }
  for (uint32_t i = 0; i < count; i++) order[i] = i;
  const auto key = [&](uint32_t i) {
    const Request& request = requests_[i];
    return std::pair(request.program, request.function);
  };
  std::sort(order.data(), order.data() + count,
            [&](uint32_t a, uint32_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  for (uint32_t p = 0; p < programs_.size(); p++) programs_[p].count = 0;
  uint32_t user_count = 0;
  for (uint32_t i = 0; i < count;) {
    const Request& first = requests_[order[i]];
    ProbeRule rule = {};
    rule.user = first.program != kKernel;
    std::span<const uint64_t> returns;
    const auto same = key(order[i]);
    for (; i < count && key(order[i]) == same; i++) {
      const Request& request = requests_[order[i]];
      TRY(merge(rule, request));
      if (request.return_count > returns.size()) {
        returns = {returns_.data() + request.first_return, request.return_count};
      }
    }
    const uint32_t tag = rule_count_;
    if (rule.user) {
      rule.name = &texts_[first.name];
      Program& program = programs_[first.program];
      if (program.count++ == 0) program.first = user_count;
      user_probes_[user_count++] = {.address = first.function, .returns = returns, .tag = tag};
    } else {
      const auto function = static_cast<uint32_t>(first.function);
      rule.name = kernel_function(function).name;
      kernel_probes_[kernel_count_++] = {
          .function = function,
          .tag = tag,
          .returns = (rule.actions & (kProbeAllocates | kProbeReturnEvent)) != 0};
    }
    all_actions_ |= rule.actions;
    rules_[rule_count_++] = rule;
  }
  return {};
}

void ProbeFunctions::count_plainly(bool plainly) {
  const uint8_t before = plainly ? kProbeCounts : kProbeCountsPlainly;
  for (uint32_t i = 0; i < rule_count_; i++) {
    if (rules_[i].actions != before || rules_[i].user) continue;
    __atomic_store_n(&rules_[i].actions, plainly ? kProbeCountsPlainly : kProbeCounts,
                     __ATOMIC_RELAXED);
  }
}
