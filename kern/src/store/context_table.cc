#include "store/context_table.h"

#include <algorithm>
#include <utility>

#include "core/probe_guard.h"
#include "lib/string.h"

namespace {

constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;

// As much as fits with a NUL; adds to `hash`.
template <size_t kSize>
void copy_printable(char (&to)[kSize], std::string_view text, uint64_t* hash) {
  const size_t length = std::min(text.size(), kSize - 1);
  for (size_t i = 0; i < length; i++) {
    to[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    *hash = (*hash ^ static_cast<uint8_t>(to[i])) * kFactor;
  }
  to[length] = '\0';
}

uint32_t shortened(uint64_t hash) {
  return static_cast<uint32_t>((hash ^ hash >> 29) * 0xbf58476d1ce4e5b9 >> 32);
}

bool equal(const ContextTable::Program& a, const ContextTable::Program& b) {
  return a.hash == b.hash && a.build_id_size == b.build_id_size && a.build_id == b.build_id &&
         strcmp(a.name, b.name) == 0 && strcmp(a.path, b.path) == 0;
}

}  // namespace

Result<void> ContextTable::open() {
  trace_memory_prepare();
  void* memory = trace_page_take();
  if (!memory) return Errno::ENOMEM;
  heads_ = static_cast<Heads*>(memory);
  memset(heads_, 0, sizeof(*heads_));
  // No hook is to make a directory for the first context.
  if (!pages_.obtain(0)) {
    clear();
    return Errno::ENOMEM;
  }
  open_.store(true, std::memory_order_release);
  return {};
}

void ContextTable::clear() {
  {
    const ProbesOff no_hit;
    Guard guard(lock_);
    open_.store(false, std::memory_order_relaxed);
    base_.store(base_.load(std::memory_order_relaxed) + size_.load(std::memory_order_relaxed),
                std::memory_order_relaxed);
    size_.store(0, std::memory_order_relaxed);
  }
  pages_.clear();
  while (program_pages_) trace_page_free(std::exchange(program_pages_, program_pages_->next));
  if (heads_) trace_page_free(std::exchange(heads_, nullptr));
}

uint32_t ContextTable::intern(ContextKind kind, uint32_t pid, std::string_view name,
                              const TraceProgram& program) {
  Program wanted = {};
  wanted.build_id_size =
      static_cast<uint8_t>(std::min(program.build_id.size(), wanted.build_id.size()));
  std::copy_n(program.build_id.begin(), wanted.build_id_size, wanted.build_id.begin());
  uint64_t hash = 0;
  copy_printable(wanted.name, name, &hash);
  copy_printable(wanted.path, program.path, &hash);
  wanted.hash = shortened(hash);

  Guard guard(lock_);
  if (!is_open()) return 0;
  const Program* const kept = find_or_add(wanted);
  return kept ? find_or_add(kind, static_cast<uint16_t>(pid), kept) : 0;
}

// One that is made and then finds no memory for its context stays, for the next that wants it.
const ContextTable::Program* ContextTable::find_or_add(const Program& wanted) {
  Program*& first = heads_->programs[wanted.hash % kHeads];
  for (const Program* program = first; program; program = program->next) {
    if (equal(*program, wanted)) return program;
  }
  Program* const program = make_program();
  if (!program) return nullptr;
  *program = wanted;
  program->next = first;
  return first = program;
}

ContextTable::Program* ContextTable::make_program() {
  if (!program_pages_ || program_pages_->used == ProgramPage::kPrograms) {
    void* memory = trace_page_take();
    if (!memory) return nullptr;
    auto* page = static_cast<ProgramPage*>(memory);
    page->next = program_pages_;
    page->used = 0;
    program_pages_ = page;
  }
  return &program_pages_->programs[program_pages_->used++];
}

uint32_t ContextTable::find_or_add(ContextKind kind, uint16_t pid, const Program* program) {
  const uint64_t who = uint64_t{pid} << 8 | static_cast<uint8_t>(kind);
  Context*& first = heads_->contexts[shortened((program->hash ^ who << 32) * kFactor) % kHeads];
  for (const Context* context = first; context; context = context->next) {
    if (context->program == program && context->pid == pid && context->kind == kind)
      return context->id;
  }
  const uint32_t index = size_.load(std::memory_order_relaxed);
  const uint32_t id = base_.load(std::memory_order_relaxed) + index;
  if (id == UINT32_MAX) return 0;
  auto* page = static_cast<Context*>(pages_.obtain(index / kPerPage));
  if (!page) return 0;
  Context* context = page + index % kPerPage;
  *context = {.next = first, .program = program, .id = id, .pid = pid, .kind = kind};
  first = context;
  size_.store(index + 1, std::memory_order_release);
  return id;
}

const ContextTable::Context* ContextTable::get(uint32_t id) const {
  if (id == 0) return nullptr;
  const uint32_t index = id - base();
  return static_cast<const Context*>(pages_[index / kPerPage]) + index % kPerPage;
}
