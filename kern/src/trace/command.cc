#include "command.h"

#include <cstddef>

#include "errstr.h"
#include "stack_table.h"
#include "trace_table.h"

namespace {

constexpr const char* words(CommandScope scope) {
  return scope == CommandScope::kOneCache ? "start [depth=N], stop, reset or mark"
                                          : "start [depth=N], stop, reset, mark or settle";
}

// What somebody typed, fit for a message.
class Quoted {
 public:
  explicit Quoted(std::string_view text) {
    constexpr size_t kShown = sizeof(text_) - 4;
    size_t length = 0;
    for (; length < text.size() && length < kShown; length++) {
      text_[length] = text[length] >= ' ' && text[length] <= '~' ? text[length] : '?';
    }
    if (length < text.size()) {
      for (int i = 0; i < 3; i++) text_[length++] = '.';
    }
    text_[length] = 0;
  }
  const char* get() const { return text_; }

 private:
  char text_[32];
};

constexpr bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Cuts the next word off the front; empty when there is none.
std::string_view next_word(std::string_view* line) {
  while (!line->empty() && is_space(line->front())) line->remove_prefix(1);
  size_t length = 0;
  while (length < line->size() && !is_space((*line)[length])) length++;
  const std::string_view word = line->substr(0, length);
  line->remove_prefix(length);
  return word;
}

// A decimal number from `low` to `high`; false for anything else.
bool parse_number(std::string_view text, uint32_t low, uint32_t high, uint32_t* number) {
  if (text.empty() || text.size() > 9) return false;
  uint32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  *number = value;
  return value >= low && value <= high;
}

Result<void> parse_option(std::string_view option, TraceOptions* options) {
  constexpr std::string_view kDepth = "depth=";
  if (option.starts_with(kDepth) &&
      parse_number(option.substr(kDepth.size()), 1, StackTable::kMaxFrames, &options->depth)) {
    return {};
  }
  return fail(Errno::EINVAL, "\"%s\": start takes depth=N, N from 1 to %u", Quoted(option).get(),
              static_cast<unsigned>(StackTable::kMaxFrames));
}

Result<void> parse_line(std::string_view line, CommandScope scope, TraceCommand* command) {
  const std::string_view word = next_word(&line);
  *command = {};
  if (word == "start") {
    command->word = TraceWord::kStart;
    for (std::string_view option = next_word(&line); !option.empty(); option = next_word(&line)) {
      TRY(parse_option(option, &command->options));
    }
    return {};
  }
  if (word == "stop") {
    command->word = TraceWord::kStop;
  } else if (word == "reset") {
    command->word = TraceWord::kReset;
  } else if (word == "mark") {
    command->word = TraceWord::kMark;
  } else if (word == "settle" && scope == CommandScope::kAllCaches) {
    command->word = TraceWord::kSettle;
  } else {
    return fail(Errno::EINVAL, "\"%s\": expected %s", Quoted(word).get(), words(scope));
  }
  const std::string_view rest = next_word(&line);
  if (!rest.empty()) {
    return fail(Errno::EINVAL, "\"%s\": %s takes no options", Quoted(rest).get(), Quoted(word).get());
  }
  return {};
}

}  // namespace

Result<bool> trace_next_command(std::string_view* text, CommandScope scope, TraceCommand* command) {
  while (!text->empty()) {
    size_t length = 0;
    while (length < text->size() && (*text)[length] != '\n') length++;
    std::string_view line = text->substr(0, length);
    text->remove_prefix(length < text->size() ? length + 1 : length);
    std::string_view rest = line;
    if (next_word(&rest).empty()) continue;
    TRY(parse_line(line, scope, command));
    return true;
  }
  return false;
}

Result<void> trace_check_syntax(std::string_view text, CommandScope scope) {
  TraceCommand command;
  bool any = false;
  while (TRY(trace_next_command(&text, scope, &command))) any = true;
  if (!any) return fail(Errno::EINVAL, "nothing to do: expected %s", words(scope));
  return {};
}

const char* trace_phase_name(TracePhase phase) {
  switch (phase) {
    case TracePhase::kRunning:
      return "running";
    case TracePhase::kStopped:
      return "stopped";
    case TracePhase::kOff:
      break;
  }
  return "off";
}

Result<void> trace_advance(TraceState& state, const TraceCommand& command, const char* name) {
  switch (command.word) {
    case TraceWord::kStart:
      if (state.phase == TracePhase::kRunning && command.options != state.options) {
        return fail(Errno::EBUSY,
                    "%.40s is being traced with depth=%u: stop it before it is started with other options", name,
                    state.options.depth);
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
        return fail(Errno::ENOSPC, "%.40s has had %u marks, and there are no more: stop and reset it", name,
                    state.mark);
      }
      state.mark++;
      break;
    case TraceWord::kSettle:
      break;
  }
  return {};
}
