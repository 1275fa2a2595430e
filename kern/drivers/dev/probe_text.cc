#include "drivers/dev/probe_text.h"

#include <algorithm>
#include <new>

#include "intern/trace_memory.h"
#include "lib/digits.h"
#include "lib/format.h"
#include "lib/string.h"

void probe_print_functions(Text& text) {
  const uint32_t count = kernel_function_count();
  for (uint32_t i = 0; i < count; i++) {
    const KernelFunction function = kernel_function(i);
    text.print("%016lx %s", function.address, function.name);
    if (function.consumers > 0) text.print(" probed %u", function.consumers);
    text.append("\n");
  }
}

// --- Counts.

Result<ProbeCountsText*> ProbeCountsText::create(ProbeSession& session) {
  void* const memory = trace_copy_alloc(sizeof(ProbeCountsText));
  if (!memory) return Errno::ENOMEM;
  auto* const text = new (memory) ProbeCountsText(session.tells_apart());
  const auto copy = [&]() -> Result<void> {
    const NumbersReading reading;
    text->state_ = TRY(session.copy_counts(text->counts_));
    return text->counts_.size() > 0 ? trace_users_add(*text) : Result<void>();
  };
  if (const Result<void> copied = copy(); !copied) {
    destroy(text);
    return copied.error();
  }
  text->number_ = session.number();
  text->print_head();
  return text;
}

void ProbeCountsText::destroy(ProbeCountsText* text) {
  if (text->is_user()) trace_users_drop(*text);
  text->~ProbeCountsText();
  trace_copy_free(text, sizeof(ProbeCountsText));
}

size_t ProbeCountsText::read(char* buffer, size_t size, uint64_t offset) {
  if (offset < position_) {
    position_ = 0;
    next_ = 0;
    print_head();
  }
  size_t done = 0;
  while (done < size) {
    const uint64_t wanted = offset + done - position_;
    if (wanted < length_) {
      const size_t part = std::min<size_t>(size - done, length_ - wanted);
      memcpy(buffer + done, piece_ + wanted, part);
      done += part;
      continue;
    }
    if (next_ == counts_.size()) break;
    position_ += length_;
    print_row(counts_[next_++]);
  }
  return done;
}

void ProbeCountsText::print_head() {
  const ProbeTallies& tallies = state_.tallies;
  const int length = format(
      piece_, kPiece,
      "probe %u state %s functions %u\n"
      "hits %lu counted %lu filtered %lu lost %lu kept_out %lu stacks %u stacks_lost %lu "
      "contexts_lost %lu truncated %lu abandoned %lu\n%s",
      number_, trace_phase_name(state_.phase), state_.functions, tallies.hits(), tallies.counted,
      tallies.filtered, tallies.lost, state_.kept_out, counts_.size(), tallies.stacks_lost,
      tallies.contexts_lost, tallies.truncated, state_.abandoned, counts_.size() > 0 ? "\n" : "");
  length_ = static_cast<size_t>(length);
}

void ProbeCountsText::append(std::string_view bytes) {
  memcpy(piece_ + length_, bytes.data(), bytes.size());
  length_ += bytes.size();
}

void ProbeCountsText::print_stack(std::string_view kind, const StackTable::View& stack) {
  append(kind);
  for (size_t i = 0; i < stack.size(); i++) {
    piece_[length_++] = ' ';
    length_ = static_cast<size_t>(put_address(piece_ + length_, stack[i]) - piece_);
  }
}

// Prints `key`, then `value` with '?' in place of each blank or unprintable character.
void ProbeCountsText::print_word(std::string_view key, const char* value) {
  append(key);
  for (const char* c = value; *c; c++) piece_[length_++] = *c > ' ' && *c <= '~' ? *c : '?';
}

void ProbeCountsText::print_row(const ProbeCounts::Row& row) {
  length_ = static_cast<size_t>(format(piece_, kPiece, "count %lu", row.count));
  if (row.kernel != StackId::kNone) print_stack(" kernel", counts_.stacks().view(row.kernel));
  if (row.user != StackId::kNone) print_stack(" user", counts_.stacks().view(row.user));
  if (const ContextTable::Context* context = counts_.contexts().get(row.context)) {
    const ContextTable::Program& program = *context->program;
    if (counts_.apart() != ProbeApart::kPrograms) {
      append(" pid ");
      length_ = static_cast<size_t>(put_decimal(piece_ + length_, context->pid) - piece_);
      print_word(" name ", program.name);
    }
    if (program.path[0]) print_word(" path ", program.path);
    if (program.build_id_size > 0) append(" build ");
    for (unsigned i = 0; i < program.build_id_size; i++) {
      constexpr const char* kDigits = "0123456789abcdef";
      piece_[length_++] = kDigits[program.build_id[i] >> 4];
      piece_[length_++] = kDigits[program.build_id[i] & 15];
    }
    if (counts_.apart() == ProbeApart::kThreads && context->thread != 0) {
      append(" thread ");
      length_ = static_cast<size_t>(put_decimal(piece_ + length_, context->thread) - piece_);
    }
  }
  piece_[length_++] = '\n';
}

// --- Events.

namespace {

// Writes at most the first `most` characters of a name to `to`, with '?' in place of each blank or
// unprintable character. Returns the end of the written text.
char* put_name(char* to, const char* name, size_t most) {
  for (size_t i = 0; name[i] && i < most; i++)
    *to++ = name[i] > ' ' && name[i] <= '~' ? name[i] : '?';
  return to;
}

char* put_nanoseconds(char* to, uint64_t time) {
  constexpr uint64_t kSecond = 1'000'000'000;
  to = put_decimal(to, time / kSecond);
  *to++ = '.';
  uint64_t rest = time % kSecond;
  for (int i = 8; i >= 0; i--, rest /= 10) to[i] = static_cast<char>('0' + rest % 10);
  return to + 9;
}

constexpr size_t kLongestName = 256;
static_assert(kProbeEventLine >= 116 + sizeof(ContextTable::Program::name) + kLongestName +
                                     size_t{17} * ProbeEvent::kMaxValues);

}  // namespace

size_t probe_format_event(char* line, const ProbeEvent& event) {
  char* to = put_nanoseconds(line, event.time);
  to = put_decimal(put_text(to, " cpu "), number_of(event.cpu));
  to = put_decimal(put_text(to, " pid "), event.pid);
  const ContextTable::Context* context = trace_contexts.get(event.context);
  if (context && context->thread != 0) to = put_decimal(put_text(to, " thread "), context->thread);
  to = put_name(put_text(to, " name "), context ? context->program->name : "?",
                sizeof(context->program->name));
  constexpr std::string_view kKinds[] = {" call ", " return ", " alloc ", " free "};
  to = put_name(put_text(to, kKinds[static_cast<size_t>(event.kind)]), event.name, kLongestName);
  const auto put_value = [&to](uint64_t value) {
    *to++ = ' ';
    to = put_address(to, value);
  };
  if (event.kind == ProbeEvent::Kind::kCall) {
    for (const uint64_t value : event.values) put_value(value);
  } else {
    put_value(event.values[0]);
  }
  if (event.kind == ProbeEvent::Kind::kAlloc)
    to = put_decimal(put_text(to, " size "), event.values[1]);
  *to++ = '\n';
  return static_cast<size_t>(to - line);
}
