#include "probe_text.h"

#include <algorithm>

#include "kmalloc.h"
#include "lib/format.h"

namespace {

// Hexadecimal without leading zeros, faster than format(): a count has many.
void print_stack(Text& text, const char* kind, const StackTable::View& stack) {
  text.append(kind);
  for (size_t i = 0; i < stack.size(); i++) {
    char digits[17] = {' '};
    size_t length = 1;
    const uint64_t address = stack[i];
    for (int shift = 60; shift >= 0; shift -= 4) {
      const uint64_t digit = address >> shift & 15;
      if (digit == 0 && length == 1 && shift > 0) continue;
      digits[length++] = "0123456789abcdef"[digit];
    }
    text.append({digits, length});
  }
}

// Without blanks.
void print_word(Text& text, const char* key, const char* value) {
  text.append(key);
  for (const char* c = value; *c; c++) {
    const char printed = *c > ' ' && *c <= '~' ? *c : '?';
    text.append({&printed, 1});
  }
}

}  // namespace

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
  void* const memory = kmalloc(sizeof(ProbeCountsText), KM_SLEEP);
  if (!memory) return Errno::ENOMEM;
  auto* const text = new (memory) ProbeCountsText(session);
  const auto fill = [&]() -> Result<void> {
    text->piece_ = TRY(Text::create());
    text->state_ = TRY(session.copy_counts(text->counts_));
    return text->next_piece();
  };
  const Result<void> filled = fill();
  if (filled) return text;
  destroy(text);
  return filled.error();
}

void ProbeCountsText::destroy(ProbeCountsText* text) {
  if (!text) return;
  Text::destroy(text->piece_);
  text->~ProbeCountsText();
  kfree(text);
}

void ProbeCountsText::print_head() {
  const ProbeSession::Tallies& tallies = state_.tallies;
  piece_->print("probe %u state %s functions %u\n", number_, trace_phase_name(state_.phase), state_.functions);
  piece_->print(
      "hits %lu counted %lu filtered %lu lost %lu kept_out %lu stacks %u stacks_lost %lu contexts_lost %lu truncated "
      "%lu\n",
      tallies.hits(), tallies.counted, tallies.filtered, tallies.lost, state_.kept_out, counts_.size(),
      tallies.stacks_lost, tallies.contexts_lost, tallies.truncated);
  if (counts_.size() > 0) piece_->append("\n");
}

void ProbeCountsText::print_row(const ProbeCounts::Row& row) {
  Text& text = *piece_;
  text.print("count %lu", row.count);
  if (row.kernel != 0) print_stack(text, " kernel", counts_.stacks().view(row.kernel));
  if (row.user != 0) print_stack(text, " user", counts_.stacks().view(row.user));
  if (const ContextTable::Context* context = counts_.contexts().get(row.context)) {
    const ContextTable::Base& base = *context->base;
    if (counts_.processes()) {
      text.print(" pid %u", base.pid);
      print_word(text, " name ", base.name);
    }
    if (base.path[0]) print_word(text, " path ", base.path);
    if (base.build_id_size > 0) text.append(" build ");
    for (unsigned i = 0; i < base.build_id_size; i++) text.print("%02x", base.build_id[i]);
  }
  text.append("\n");
}

// Instead of the piece that is there the one behind it; an empty one at the end. ENOMEM leaves the one that is there, emptied.
Result<void> ProbeCountsText::next_piece() {
  constexpr size_t kPiece = size_t{32} << 10;
  const uint64_t begin = piece_begin_ + piece_->view().size();
  const uint32_t first_row = next_row_;
  piece_->clear();
  piece_begin_ = begin;
  if (begin == 0) print_head();
  while (next_row_ < counts_.size() && piece_->view().size() < kPiece) print_row(counts_[next_row_++]);
  if (!piece_->failed()) return {};
  piece_->clear();
  next_row_ = first_row;
  return Errno::ENOMEM;
}

Result<size_t> ProbeCountsText::read(char* buffer, size_t size, uint64_t offset) {
  if (offset < piece_begin_) {
    piece_->clear();
    piece_begin_ = next_row_ = 0;
  }
  size_t done = 0;
  while (done < size) {
    const size_t part = piece_->read(buffer + done, size - done, offset + done - piece_begin_);
    done += part;
    if (part > 0) continue;
    if (next_row_ == counts_.size() && piece_begin_ + piece_->view().size() > 0) break;
    const Result<void> made = next_piece();
    if (!made && done > 0) break;
    TRY(made);
  }
  return done;
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
