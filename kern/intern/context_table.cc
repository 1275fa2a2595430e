#include "intern/context_table.h"

#include <algorithm>

#include "lib/format.h"

namespace {

// An object as 32-bit words, padded with zeros to whole pairs of words.
template <typename T>
union Padded {
  uint64_t pairs[(sizeof(T) + 7) / 8] = {};
  T object;
};

// Copies at most kSize - 1 characters, so that a NUL fits behind them, and returns their number.
// Copies '?' for an unprintable character.
template <size_t kSize>
size_t copy_printable(char (&to)[kSize], std::string_view text) {
  const size_t length = std::min(text.size(), kSize - 1);
  for (size_t i = 0; i < length; i++) to[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  return length;
}

}  // namespace

void ContextTable::clear() {
  InternTable::clear();
  base_.fetch_add(kStep, std::memory_order_relaxed);
}

// If there is memory for a new program but not for its context, the program stays in the table. A
// later call may use the program, or a sweep forgets it.
ContextId ContextTable::intern(ContextKind kind, uint32_t pid, std::string_view name,
                               const TraceProgram& program, uint32_t thread) {
  if (!is_open()) return ContextId::kNone;
  Padded<Program> padded;
  Program& wanted = padded.object;
  wanted.build_id_size =
      static_cast<uint8_t>(std::min(program.build_id.size(), wanted.build_id.size()));
  std::copy_n(program.build_id.begin(), wanted.build_id_size, wanted.build_id.begin());
  copy_printable(wanted.name, name);
  const size_t path = copy_printable(wanted.path, program.path);
  const uint32_t kept =
      find_or_add(Kind::kProgram, padded.pairs, offsetof(Program, path) + path + 1);
  if (kept == 0) return ContextId::kNone;
  Padded<Context> context;
  context.object.program = reinterpret_cast<const Program*>(at(kept).data);
  context.object.thread = thread;
  context.object.pid = static_cast<uint16_t>(pid);
  context.object.kind = kind;
  return ContextId{
      find_or_add(Kind::kContext, context.pairs, offsetof(Context, kind) + sizeof(kind))};
}

// Finds or adds an entry of `size` bytes, which are followed by zeros up to a whole pair of words.
// The hash is computed over pairs of words.
uint32_t ContextTable::find_or_add(Kind kind, const uint64_t* pairs, size_t size) {
  const size_t words = (size + sizeof(uint32_t) - 1) / sizeof(uint32_t);
  uint64_t hash = 0;
  for (size_t i = 0; 2 * i < words; i++) hash = mixed(hash ^ pairs[i]);
  return InternTable::find_or_add(key_of(kind, words, hash),
                                  reinterpret_cast<const uint32_t*>(pairs))
      .id;
}

int ContextTable::format(char* buffer, size_t size, const Context* context) {
  if (!context) return ::format(buffer, size, "unknown");
  const char* const name = context->program->name;
  switch (context->kind) {
    case ContextKind::kProcess:
      if (context->thread == 0)
        return ::format(buffer, size, "pid %u %s", unsigned{context->pid}, name);
      return ::format(buffer, size, "pid %u thread %u %s", unsigned{context->pid}, context->thread,
                      name);
    case ContextKind::kInterrupt:
      return ::format(buffer, size, "irq %s", name);
    case ContextKind::kKernelTask:
      break;
  }
  return ::format(buffer, size, "task %s", name);
}
