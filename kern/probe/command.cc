#include "probe/command_impl.h"

#include "core/cpu.h"
#include "core/errstr.h"
#include "intern/context.h"
#include "lib/quoted.h"
#include "lib/words.h"
#include "trace/record/sampler.h"

namespace {

// The first words of all commands, for an error string. The error string has room for them after a
// quoted word of eight characters.
constexpr const char* kWords =
    "count event alloc free watch stacks depth processes threads pid cpu min max sample start stop "
    "clear";

bool parse_hex(std::string_view text, uint64_t* number) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  if (text.empty() || text.size() > 16) return false;
  uint64_t value = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9', small = c >= 'a' && c <= 'f',
               capital = c >= 'A' && c <= 'F';
    if (!digit && !small && !capital) return false;
    value = value << 4 | static_cast<uint64_t>(digit ? c - '0' : (small ? c - 'a' : c - 'A') + 10);
  }
  *number = value;
  return true;
}

bool parse_argument(std::string_view text, uint8_t* argument) {
  uint64_t value = 0;
  if (!parse_number(text, 1, kProbeArguments, &value)) return false;
  *argument = static_cast<uint8_t>(value);
  return true;
}

Result<void> parse_functions(std::string_view line, std::string_view word, ProbeCommand* command) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  if (line.empty()) {
    return fail(Errno::EINVAL, "%s takes names of functions, in which * and ? are wildcards",
                Quoted(word).get());
  }
  command->functions = line;
  ProbeFunctionName function;
  while (TRY(probe_next_function(&line, &function))) {
  }
  return {};
}

bool parse_alloc_option(std::string_view option, ProbeAllocRule* rule) {
  if (option.starts_with("size=") && rule->size == 0) {
    option.remove_prefix(5);
    const size_t star = option.find('*');
    if (star != option.npos && !parse_argument(option.substr(star + 1), &rule->factor))
      return false;
    return parse_argument(option.substr(0, star), &rule->size);
  }
  if (option.starts_with("old=") && rule->old == 0)
    return parse_argument(option.substr(4), &rule->old);
  if (option.starts_with("result=*") && rule->result == 0)
    return parse_argument(option.substr(8), &rule->result);
  return option == "result=return" && rule->result == 0;
}

Result<void> parse_alloc(std::string_view line, ProbeCommand* command) {
  const std::string_view function = next_word(line);
  TRY(parse_functions(function, "alloc", command));
  for (std::string_view option = next_word(line); !option.empty(); option = next_word(line)) {
    if (!parse_alloc_option(option, &command->rule)) {
      return fail(Errno::EINVAL,
                  "\"%s\": alloc takes FUNCTION size=N[*N] [old=N] [result=return|*N], N an "
                  "argument, 1 to %u",
                  Quoted(option).get(), kProbeArguments);
    }
  }
  if (command->rule.size != 0) return {};
  return fail(Errno::EINVAL, "alloc %s: size=N or size=N*N is missing, N an argument from 1 to %u",
              Quoted(function).get(), kProbeArguments);
}

Result<void> parse_free(std::string_view line, ProbeCommand* command) {
  const std::string_view function = next_word(line);
  TRY(parse_functions(function, "free", command));
  const std::string_view option = next_word(line);
  if (option.starts_with("address=") && parse_argument(option.substr(8), &command->address) &&
      next_word(line).empty())
    return {};
  return fail(Errno::EINVAL, "\"%s\": free takes FUNCTION address=N, N an argument from 1 to %u",
              Quoted(option).get(), kProbeArguments);
}

Result<void> parse_stacks(std::string_view which, ProbeStacks* stacks) {
  if (which == "none") {
    *stacks = ProbeStacks::kNone;
  } else if (which == "kernel") {
    *stacks = ProbeStacks::kKernel;
  } else if (which == "user") {
    *stacks = ProbeStacks::kUser;
  } else if (which == "both") {
    *stacks = ProbeStacks::kBoth;
  } else {
    return fail(Errno::EINVAL, "\"%s\": stacks takes kernel, user, both or none",
                Quoted(which).get());
  }
  return {};
}

struct NumberWord {
  const char* name;
  ProbeWord word;
  uint64_t low, high;
  bool bytes;
};
constexpr NumberWord kNumberWords[] = {
    {"depth", ProbeWord::kDepth, 1, kProbeMaxDepth, false},
    {"pid", ProbeWord::kPid, 1, kMaxPid, false},
    {"cpu", ProbeWord::kCpu, 0, kMaxCpus - 1, false},
    {"min", ProbeWord::kMin, 0, TraceOptions::kAnySize, true},
    {"max", ProbeWord::kMax, 0, TraceOptions::kAnySize, true},
    {"sample", ProbeWord::kSample, kMinSampleRate, kMaxSampleRate, true},
};

Result<void> parse_line(std::string_view line, ProbeCommand* command) {
  const std::string_view word = next_word(line);
  *command = {};
  if (word == "count" || word == "event" || word == "event+return") {
    command->word = word == "count"   ? ProbeWord::kCount
                    : word == "event" ? ProbeWord::kEvent
                                      : ProbeWord::kEventReturn;
    return parse_functions(line, word, command);
  }
  if (word == "alloc") {
    command->word = ProbeWord::kAlloc;
    return parse_alloc(line, command);
  }
  if (word == "free") {
    command->word = ProbeWord::kFree;
    return parse_free(line, command);
  }
  if (word == "watch") {
    command->word = ProbeWord::kWatchMemory;
    const std::string_view what = next_word(line);
    if (what != "memory")
      return fail(Errno::EINVAL, "\"%s\": expected watch memory", Quoted(what).get());
  } else if (word == "stacks") {
    command->word = ProbeWord::kStacks;
    TRY(parse_stacks(next_word(line), &command->stacks));
  } else if (word == "processes") {
    command->word = ProbeWord::kProcesses;
  } else if (word == "threads") {
    command->word = ProbeWord::kThreads;
  } else if (word == "start") {
    command->word = ProbeWord::kStart;
  } else if (word == "stop") {
    command->word = ProbeWord::kStop;
  } else if (word == "clear") {
    command->word = ProbeWord::kClear;
  } else {
    const NumberWord* found = nullptr;
    for (const NumberWord& candidate : kNumberWords) {
      if (word == candidate.name) found = &candidate;
    }
    if (!found) return fail(Errno::EINVAL, "\"%s\": expected %s", Quoted(word).get(), kWords);
    command->word = found->word;
    const std::string_view text = next_word(line);
    const bool good = found->bytes ? parse_bytes(text, found->low, found->high, &command->number)
                                   : parse_number(text, found->low, found->high, &command->number);
    if (!good) {
      return fail(Errno::EINVAL, "\"%s\": %s takes a number from %lu to %lu%s", Quoted(text).get(),
                  found->name, found->low, found->high,
                  found->bytes ? "; K, M or G may follow" : "");
    }
  }
  const std::string_view rest = next_word(line);
  if (rest.empty()) return {};
  return fail(Errno::EINVAL, "\"%s\": nothing may follow the argument of %s", Quoted(rest).get(),
              Quoted(word).get());
}

// Returns the index of the last single colon in `text`, or npos if there is no single colon. Names
// of C++ functions contain pairs of colons.
size_t last_single_colon(std::string_view text) {
  for (size_t i = text.rfind(':'); i != text.npos;
       i = i == 0 ? text.npos : text.rfind(':', i - 1)) {
    if (i == 0 || text[i - 1] != ':') return i;
    if (--i == 0) break;
  }
  return text.npos;
}

bool are_addresses(std::string_view text) {
  for (;;) {
    const size_t comma = text.find(',');
    uint64_t address = 0;
    if (!parse_hex(text.substr(0, comma), &address)) return false;
    if (comma == text.npos) return true;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<bool> probe_next_command(std::string_view* text, ProbeCommand* command) {
  while (!text->empty()) {
    const size_t end = text->find('\n');
    const std::string_view line = text->substr(0, end);
    text->remove_prefix(end == text->npos ? text->size() : end + 1);
    std::string_view rest = line;
    if (next_word(rest).empty()) continue;
    TRY(parse_line(line, command));
    return true;
  }
  return false;
}

Result<bool> probe_next_function(std::string_view* functions, ProbeFunctionName* function) {
  const std::string_view word = next_word(*functions);
  if (word.empty()) return false;
  *function = {};
  // Names of kernel functions contain colons in pairs only.
  if (word.front() != '/' && last_single_colon(word) == word.npos) {
    function->name = word;
    return true;
  }
  function->user = true;
  const auto expected = [&] {
    return fail(Errno::EINVAL,
                "\"%s\": a program's function is PATH:ADDRESS:NAME[:RETURN,RETURN...], addresses "
                "in hexadecimal",
                Quoted(word).get());
  };
  // A path may contain colons: it ends before the first field that is an address.
  for (size_t colon = word.find(':'); colon != word.npos; colon = word.find(':', colon + 1)) {
    const size_t second = word.find(':', colon + 1);
    if (second == word.npos) return expected();
    if (!parse_hex(word.substr(colon + 1, second - colon - 1), &function->address)) continue;
    function->path = word.substr(0, colon);
    function->name = word.substr(second + 1);
    const size_t last = last_single_colon(function->name);
    if (last != word.npos) {
      function->returns = function->name.substr(last + 1);
      function->name = function->name.substr(0, last);
      if (!are_addresses(function->returns)) return expected();
    }
    if (function->name.empty()) return expected();
    return true;
  }
  return expected();
}

bool probe_next_return(std::string_view* returns, uint64_t* address) {
  if (returns->empty()) return false;
  const size_t comma = returns->find(',');
  const bool good = parse_hex(returns->substr(0, comma), address);
  returns->remove_prefix(comma == returns->npos ? returns->size() : comma + 1);
  return good;
}

bool probe_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0;
  // `star` is the index of the last `*` that the pattern has reached so far. `tried` is the index
  // in the name from which the rest of the pattern after this `*` is being matched.
  size_t star = pattern.npos, tried = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      p++;
      n++;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') p++;
  return p == pattern.size();
}
