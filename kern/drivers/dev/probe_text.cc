#include "probe_text.h"

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

void print_row(Text& text, const ProbeCounts& counts, const ProbeCounts::Row& row) {
  text.print("count %lu", row.count);
  if (row.kernel != 0) print_stack(text, " kernel", counts.stacks().view(row.kernel));
  if (row.user != 0) print_stack(text, " user", counts.stacks().view(row.user));
  if (const ContextTable::Context* context = counts.contexts().get(row.context)) {
    const ContextTable::Base& base = *context->base;
    if (counts.processes()) {
      text.print(" pid %u", base.pid);
      print_word(text, " name ", base.name);
    }
    if (base.path[0]) print_word(text, " path ", base.path);
    if (base.build_id_size > 0) text.append(" build ");
    for (unsigned i = 0; i < base.build_id_size; i++) text.print("%02x", base.build_id[i]);
  }
  text.append("\n");
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

Result<void> probe_print_counts(ProbeSession& session, Text& text) {
  ProbeCounts counts(trace_stacks, trace_contexts, session.tells_processes_apart());
  const ProbeSession::State state = TRY(session.copy_counts(counts));
  const ProbeSession::Tallies& tallies = state.tallies;
  text.print("probe %u state %s functions %u\n", session.number(), trace_phase_name(state.phase), state.functions);
  text.print(
      "hits %lu counted %lu filtered %lu lost %lu kept_out %lu stacks %u stacks_lost %lu contexts_lost %lu truncated %lu\n",
      tallies.hits(), tallies.counted, tallies.filtered, tallies.lost, state.kept_out, counts.size(), tallies.stacks_lost,
      tallies.contexts_lost, tallies.truncated);
  if (counts.size() > 0) text.append("\n");
  for (uint32_t i = 0; i < counts.size(); i++) print_row(text, counts, counts[i]);
  return {};
}
