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

bool equal(const ContextTable::Base& a, const ContextTable::Base& b) {
  return a.hash == b.hash && a.pid == b.pid && a.kind == b.kind &&
         a.build_id_size == b.build_id_size && a.build_id == b.build_id &&
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
  while (base_pages_) trace_page_free(std::exchange(base_pages_, base_pages_->next));
  if (heads_) trace_page_free(std::exchange(heads_, nullptr));
}

ContextTable::Base* ContextTable::make_base() {
  if (!base_pages_ || base_pages_->used == BasePage::kBases) {
    void* memory = trace_page_take();
    if (!memory) return nullptr;
    auto* page = static_cast<BasePage*>(memory);
    page->next = base_pages_;
    page->used = 0;
    base_pages_ = page;
  }
  return &base_pages_->bases[base_pages_->used];
}

uint32_t ContextTable::intern(ContextKind kind, uint32_t pid, std::string_view name,
                              const TraceProgram& program) {
  Base wanted = {};
  wanted.pid = pid;
  wanted.kind = kind;
  wanted.build_id_size =
      static_cast<uint8_t>(std::min(program.build_id.size(), wanted.build_id.size()));
  std::copy_n(program.build_id.begin(), wanted.build_id_size, wanted.build_id.begin());
  uint64_t hash = uint64_t{pid} << 8 | static_cast<uint8_t>(kind);
  copy_printable(wanted.name, name, &hash);
  copy_printable(wanted.path, program.path, &hash);
  wanted.hash = shortened(hash);

  Guard guard(lock_);
  if (!is_open()) return 0;
  Base*& first = heads_->bases[wanted.hash % kHeads];
  for (const Base* base = first; base; base = base->next) {
    if (equal(*base, wanted)) return base->id;
  }
  Base* base = make_base();
  if (!base) return 0;
  *base = wanted;
  base->id = find_or_add(base, 0);
  if (base->id == 0) return 0;
  base_pages_->used++;
  base->next = first;
  first = base;
  return base->id;
}

uint32_t ContextTable::with_user_stack(uint32_t id, uint32_t user_stack) {
  Guard guard(lock_);
  return is_open() ? find_or_add(get(id)->base, user_stack) : 0;
}

uint32_t ContextTable::find_or_add(const Base* base, uint32_t user_stack) {
  const uint32_t hash = shortened((reinterpret_cast<uint64_t>(base) ^ user_stack) * kFactor);
  Context*& first = heads_->contexts[hash % kHeads];
  for (const Context* context = first; context; context = context->next) {
    if (context->base == base && context->user_stack == user_stack) return context->id;
  }
  const uint32_t index = size_.load(std::memory_order_relaxed);
  const uint32_t id = base_.load(std::memory_order_relaxed) + index;
  if (id == UINT32_MAX) return 0;
  auto* page = static_cast<Context*>(pages_.obtain(index / kPerPage));
  if (!page) return 0;
  Context* context = page + index % kPerPage;
  *context = {.next = first, .base = base, .id = id, .user_stack = user_stack};
  first = context;
  size_.store(index + 1, std::memory_order_release);
  return id;
}

const ContextTable::Context* ContextTable::get(uint32_t id) const {
  if (id == 0) return nullptr;
  const uint32_t index = id - base();
  return static_cast<const Context*>(pages_[index / kPerPage]) + index % kPerPage;
}
