#include "probe_text.h"

#include <algorithm>
#include <bit>
#include <new>

#include "lib/digits.h"
#include "lib/format.h"
#include "lib/string.h"
#include "src/trace/trace_memory.h"

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

namespace {

// Without leading zeros.
char* put_address(char* to, uint64_t address) {
  int shift = address == 0 ? 0 : (std::bit_width(address) - 1) & ~3;
  for (; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[address >> shift & 15];
  return to;
}

}  // namespace

Result<ProbeCountsText*> ProbeCountsText::create(ProbeSession& session) {
  void* const memory = trace_copy_alloc(sizeof(ProbeCountsText));
  if (!memory) return Errno::ENOMEM;
  auto* const text = new (memory) ProbeCountsText(session.tells_processes_apart());
  Result<ProbeSession::State> state = session.copy_counts(text->counts_);
  if (!state) {
    destroy(text);
    return state.error();
  }
  text->state_ = *state;
  text->number_ = session.number();
  text->print_head();
  return text;
}

void ProbeCountsText::destroy(ProbeCountsText* text) {
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
  const ProbeSession::Tallies& tallies = state_.tallies;
  const int length = format(
      piece_, kPiece,
      "probe %u state %s functions %u\n"
      "hits %lu counted %lu filtered %lu lost %lu kept_out %lu stacks %u stacks_lost %lu contexts_lost %lu truncated "
      "%lu\n%s",
      number_, trace_phase_name(state_.phase), state_.functions, tallies.hits(), tallies.counted, tallies.filtered,
      tallies.lost, state_.kept_out, counts_.size(), tallies.stacks_lost, tallies.contexts_lost, tallies.truncated,
      counts_.size() > 0 ? "\n" : "");
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

// Without blanks.
void ProbeCountsText::print_word(std::string_view key, const char* value) {
  append(key);
  for (const char* c = value; *c; c++) piece_[length_++] = *c > ' ' && *c <= '~' ? *c : '?';
}

void ProbeCountsText::print_row(const ProbeCounts::Row& row) {
  length_ = static_cast<size_t>(format(piece_, kPiece, "count %lu", row.count));
  if (row.kernel != 0) print_stack(" kernel", counts_.stacks().view(row.kernel));
  if (row.user != 0) print_stack(" user", counts_.stacks().view(row.user));
  if (const ContextTable::Context* context = counts_.contexts().get(row.context)) {
    const ContextTable::Base& base = *context->base;
    if (counts_.processes()) {
      append(" pid ");
      length_ = static_cast<size_t>(put_decimal(piece_ + length_, base.pid) - piece_);
      print_word(" name ", base.name);
    }
    if (base.path[0]) print_word(" path ", base.path);
    if (base.build_id_size > 0) append(" build ");
    for (unsigned i = 0; i < base.build_id_size; i++) {
      constexpr const char* kDigits = "0123456789abcdef";
      piece_[length_++] = kDigits[base.build_id[i] >> 4];
      piece_[length_++] = kDigits[base.build_id[i] & 15];
    }
  }
  piece_[length_++] = '\n';
}

// --- Events.

size_t probe_format_event(char* line, const ProbeEvent& event) {
  size_t length = 0;
  const auto print = [&](const char* pattern, auto... values) {
    length += static_cast<size_t>(format(line + length, kProbeEventLine - length, pattern, values...));
    length = std::min(length, kProbeEventLine - 1);
  };
  // Names have no blanks here.
  const auto print_name = [&](const char* name, size_t most) {
    for (size_t i = 0; name[i] && i < most; i++) print("%c", name[i] > ' ' && name[i] <= '~' ? name[i] : '?');
  };
  constexpr size_t kLongestName = 256;
  constexpr uint64_t kSecond = 1'000'000'000;
  print("%lu.%09lu cpu %u pid %u name ", event.time / kSecond, event.time % kSecond, event.cpu, event.pid);
  const ContextTable::Context* context = trace_contexts.get(event.context);
  print_name(context ? context->base->name : "?", sizeof(context->base->name));
  constexpr const char* kKinds[] = {" call ", " return ", " alloc ", " free "};
  print("%s", kKinds[static_cast<size_t>(event.kind)]);
  print_name(event.name, kLongestName);
  switch (event.kind) {
    case ProbeEvent::Kind::kCall:
      for (const uint64_t value : event.values) print(" %lx", value);
      break;
    case ProbeEvent::Kind::kAlloc:
      print(" %lx size %lu", event.values[0], event.values[1]);
      break;
    case ProbeEvent::Kind::kReturn:
    case ProbeEvent::Kind::kFree:
      print(" %lx", event.values[0]);
      break;
  }
  print("\n");
  return length;
}
