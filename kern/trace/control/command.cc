#include "trace/control/command_impl.h"

#include <algorithm>

#include "core/errstr.h"
#include "intern/context.h"
#include "intern/stack_table.h"
#include "lib/quoted.h"
#include "lib/words.h"
#include "trace/record/sampler.h"
#include "trace/record/table.h"

namespace {

constexpr const char* words(CommandScope scope) {
  return scope == CommandScope::kOneCache
             ? "start [OPTION ...], stop, reset, mark, check, nocheck or scan"
             : "start, refs, stop, reset, mark, [no]check, scan, limit N, reap, sweep or settle";
}

// The bounds of the limit on trace memory, in bytes: one page, and more than any machine has.
constexpr uint64_t kMinLimit = kPageSize;
constexpr uint64_t kMaxLimit = uint64_t{1} << 40;

Result<void> parse_option(std::string_view option, TraceOptions* options) {
  const size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  const std::string_view text =
      equals == option.npos ? std::string_view() : option.substr(equals + 1);
  uint64_t value = 0;
  if (key == "depth") {
    if (!parse_number(text, 1, StackTable::kMaxFrames, &value)) {
      return fail(Errno::EINVAL, "\"%s\": start takes depth=N, N from 1 to %u",
                  Quoted(option).get(), static_cast<unsigned>(StackTable::kMaxFrames));
    }
    options->depth = static_cast<uint32_t>(value);
  } else if (key == "min" || key == "max") {
    if (!parse_bytes(text, 0, TraceOptions::kAnySize, &value)) {
      return fail(Errno::EINVAL,
                  "\"%s\": start takes min=N and max=N, N bytes, at most %u; K, M or G may follow",
                  Quoted(option).get(), TraceOptions::kAnySize);
    }
    (key == "min" ? options->min_size : options->max_size) = static_cast<uint32_t>(value);
  } else if (key == "pid") {
    if (!parse_number(text, 1, kMaxPid, &value)) {
      return fail(Errno::EINVAL, "\"%s\": start takes pid=N, N from 1 to %u", Quoted(option).get(),
                  kMaxPid);
    }
    options->pid = static_cast<uint32_t>(value);
  } else if (key == "sample") {
    if (!parse_bytes(text, kMinSampleRate, kMaxSampleRate, &value)) {
      return fail(Errno::EINVAL,
                  "\"%s\": start takes sample=N, N bytes from %lu to %luG; K, M or G may follow",
                  Quoted(option).get(), kMinSampleRate, kMaxSampleRate >> 30);
    }
    options->sample = value;
  } else if (option == "frees" || option == "frees=1") {
    options->frees = true;
  } else {
    return fail(Errno::EINVAL,
                "\"%s\": start takes depth=N, sample=N, min=N, max=N, pid=N and frees",
                Quoted(option).get());
  }
  return {};
}

bool separates(char separator, char c) {
  return separator == ' ' ? is_space(c) : c == separator;
}

Result<void> parse_limit(std::string_view text, uint64_t* limit) {
  if (parse_bytes(text, kMinLimit, kMaxLimit, limit)) return {};
  return fail(Errno::EINVAL, "\"%s\": limit takes BYTES from %lu to %luG; K, M or G may follow",
              Quoted(text).get(), kMinLimit, kMaxLimit >> 30);
}

constexpr struct {
  std::string_view name;
  TraceWord word;
  bool for_one;  // for one cache, too
} kWords[] = {
    {"start", TraceWord::kStart, true},    {"stop", TraceWord::kStop, true},
    {"reset", TraceWord::kReset, true},    {"mark", TraceWord::kMark, true},
    {"check", TraceWord::kCheck, true},    {"nocheck", TraceWord::kNoCheck, true},
    {"scan", TraceWord::kScan, true},      {"refs", TraceWord::kRefs, false},
    {"settle", TraceWord::kSettle, false}, {"sweep", TraceWord::kSweep, false},
    {"reap", TraceWord::kReap, false},     {"limit", TraceWord::kLimit, false},
};

Result<TraceWord> find_word(std::string_view name, CommandScope scope) {
  for (const auto& word : kWords) {
    if (word.name == name && (word.for_one || scope == CommandScope::kAllCaches)) return word.word;
  }
  return fail(Errno::EINVAL, "\"%s\": expected %s", Quoted(name).get(), words(scope));
}

Result<TraceCommand> parse_line(std::string_view line, CommandScope scope) {
  const std::string_view name = next_word(line);
  TraceCommand command{.word = TRY(find_word(name, scope)), .options = {}, .limit = 0};
  if (command.word == TraceWord::kStart || command.word == TraceWord::kRefs) {
    command.options = TRY(trace_parse_options(line, ' '));
    return command;
  }
  if (command.word == TraceWord::kLimit) TRY(parse_limit(next_word(line), &command.limit));
  const std::string_view rest = next_word(line);
  if (rest.empty()) return command;
  return fail(Errno::EINVAL, "\"%s\": %s takes no %soptions", Quoted(rest).get(),
              Quoted(name).get(), command.word == TraceWord::kLimit ? "more " : "");
}

}  // namespace

Result<TraceOptions> trace_parse_options(std::string_view text, char separator) {
  TraceOptions options;
  while (!text.empty()) {
    size_t length = 0;
    while (length < text.size() && !separates(separator, text[length])) length++;
    if (length > 0) TRY(parse_option(text.substr(0, length), &options));
    text.remove_prefix(length < text.size() ? length + 1 : length);
  }
  if (options.min_size <= options.max_size) return options;
  return fail(Errno::EINVAL, "min=%u max=%u: no size matches, because min is greater than max",
              options.min_size, options.max_size);
}

Result<PageVector<TraceCommand>> trace_parse_commands(std::string_view text, CommandScope scope) {
  PageVector<TraceCommand> commands;
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, length), rest = line;
    text.remove_prefix(std::min(length + 1, text.size()));
    if (!next_word(rest).empty()) TRY(commands.push(TRY(parse_line(line, scope))));
  }
  if (commands.empty()) return fail(Errno::EINVAL, "nothing to do: expected %s", words(scope));
  return commands;
}

Result<void> trace_advance(TraceState& state, const TraceCommand& command, const char* name) {
  switch (command.word) {
    case TraceWord::kStart:
    case TraceWord::kRefs:
      if (state.phase == TracePhase::kRunning && command.options != state.options) {
        char options[TraceOptions::kMaxFilters + 16];
        state.options.format_as_typed(options, sizeof(options));
        return fail(Errno::EBUSY, "%.18s is being traced with%s: stop it first", name, options);
      }
      if (state.phase == TracePhase::kStopped && command.options.sample != state.options.sample) {
        return fail(Errno::EBUSY, "%.30s has records with another sampling rate: reset it first",
                    name);
      }
      state.phase = TracePhase::kRunning;
      state.options = command.options;
      break;
    case TraceWord::kStop:
      if (state.phase == TracePhase::kRunning) state.phase = TracePhase::kStopped;
      break;
    case TraceWord::kReset:
      if (state.phase == TracePhase::kStopped) state = {};
      break;
    case TraceWord::kMark:
      if (state.phase == TracePhase::kOff) {
        return fail(Errno::EINVAL, "%.40s is not traced: start it before a mark", name);
      }
      if (state.mark == TraceTable::kMaxMark) {
        return fail(Errno::ENOSPC,
                    "%.40s has had %u marks, and there are no more: stop and reset it", name,
                    state.mark);
      }
      state.mark++;
      break;
    case TraceWord::kCheck:
    case TraceWord::kNoCheck:
    case TraceWord::kScan:
    case TraceWord::kSettle:
    case TraceWord::kSweep:
    case TraceWord::kLimit:
    case TraceWord::kReap:
      break;
  }
  return {};
}
