#include "store/context_table.h"

#include <algorithm>

#include "lib/string.h"

namespace {

// As much as fits with a NUL, which comes behind it.
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

// One that is made and then finds no memory for its context stays until it is swept, for the next
// that wants it.
uint32_t ContextTable::intern(ContextKind kind, uint32_t pid, std::string_view name,
                              const TraceProgram& program) {
  if (!is_open()) return 0;
  Program wanted = {};
  wanted.build_id_size =
      static_cast<uint8_t>(std::min(program.build_id.size(), wanted.build_id.size()));
  std::copy_n(program.build_id.begin(), wanted.build_id_size, wanted.build_id.begin());
  copy_printable(wanted.name, name);
  const size_t path = copy_printable(wanted.path, program.path);
  const uint32_t kept = find_or_add(Kind::kProgram, &wanted, offsetof(Program, path) + path + 1);
  if (kept == 0) return 0;
  Context context = {};
  context.program = reinterpret_cast<const Program*>(at(kept).data);
  context.pid = static_cast<uint16_t>(pid);
  context.kind = kind;
  return find_or_add(Kind::kContext, &context, offsetof(Context, kind) + sizeof(context.kind));
}

// Behind the object there are zeros, to the end of its last word.
uint32_t ContextTable::find_or_add(Kind kind, const void* object, size_t size) {
  uint32_t data[(sizeof(Program) + 3) / 4] = {};
  memcpy(data, object, size);
  const size_t words = (size + sizeof(data[0]) - 1) / sizeof(data[0]);
  uint64_t hash = 0;
  for (size_t i = 0; i < words; i++) hash = mixed(hash ^ data[i] ^ uint64_t{i} << 32);
  return InternTable::find_or_add(key_of(kind, words, hash), data).id;
}
