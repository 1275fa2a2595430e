#include "context_table.h"

#include <algorithm>

#include "lib/string.h"

Result<void> ContextTable::open() {
  for (auto& page : heads_) {
    trace_memory_prepare();
    void* memory = trace_page_take();
    if (!memory) {
      clear();
      return Errno::ENOMEM;
    }
    page = static_cast<Context**>(memory);
    std::fill_n(page, kHeadsPerPage, nullptr);
  }
  open_.store(true, std::memory_order_release);
  return {};
}

void ContextTable::clear() {
  {
    Guard guard(lock_);
    open_.store(false, std::memory_order_relaxed);
    base_.store(base_.load(std::memory_order_relaxed) + size_.load(std::memory_order_relaxed),
                std::memory_order_relaxed);
    size_.store(0, std::memory_order_relaxed);
  }
  pages_.clear();
  for (auto& page : heads_) {
    if (page) trace_page_free(page);
    page = nullptr;
  }
}

uint32_t ContextTable::intern(ContextKind kind, uint32_t pid, std::string_view name) {
  char printable[sizeof(Context::name)] = {};
  const size_t length = std::min(name.size(), sizeof(printable) - 1);
  uint64_t hash = uint64_t{pid} << 8 | static_cast<uint8_t>(kind);
  for (size_t i = 0; i < length; i++) {
    printable[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
    hash = (hash ^ static_cast<uint8_t>(printable[i])) * 0x9e3779b97f4a7c15;
  }
  const auto short_hash = static_cast<uint32_t>((hash ^ hash >> 29) * 0xbf58476d1ce4e5b9 >> 32);

  Guard guard(lock_);
  if (!is_open()) return 0;
  const uint32_t base = base_.load(std::memory_order_relaxed);
  Context*& first = head(short_hash);
  const uint32_t index = size_.load(std::memory_order_relaxed);
  for (Context* context = first; context; context = context->next) {
    if (context->hash != short_hash || context->pid != pid || context->kind != kind) continue;
    if (strcmp(context->name, printable) == 0) return context->id;
  }
  if (base + index == UINT32_MAX) return 0;
  auto* page = static_cast<Context*>(pages_.obtain(index / kPerPage));
  if (!page) return 0;
  Context* context = page + index % kPerPage;
  context->next = first;
  context->hash = short_hash;
  context->id = base + index;
  context->pid = pid;
  context->kind = kind;
  memcpy(context->name, printable, sizeof(printable));
  first = context;
  size_.store(index + 1, std::memory_order_release);
  return base + index;
}

const ContextTable::Context* ContextTable::get(uint32_t id) const {
  if (id == 0) return nullptr;
  const uint32_t index = id - base();
  return static_cast<const Context*>(pages_[index / kPerPage]) + index % kPerPage;
}
