#include "stack_table.h"

#include <algorithm>
#include <new>

#include "lib/string.h"

namespace {

// An id is the entry's page number and its place in the page. Place 0 is never used, so that no id is 0.
constexpr size_t kGranule = 8;
constexpr uint32_t kPlacesPerPage = kPageSize / kGranule;

uint32_t hash_words(StackKind kind, const uint32_t* data, size_t words) {
  uint64_t hash = static_cast<uint64_t>(kind) + 1;
  for (size_t i = 0; i < words; i++) hash = (hash ^ data[i]) * 0x9e3779b97f4a7c15;
  hash ^= hash >> 29;
  return static_cast<uint32_t>(hash * 0xbf58476d1ce4e5b9 >> 32);
}

// Most look-ups end in one full compare; word by word it costs a fraction of memcmp.
bool equal_words(const uint32_t* a, const uint32_t* b, size_t words) {
  size_t i = 0;
  while (i < words && a[i] == b[i]) i++;
  return i == words;
}

// Frames as they are stored; returns the number of words.
size_t pack(StackKind kind, const uint64_t* frames, size_t count, uint32_t* data) {
  if (kind == StackKind::kKernel) {
    for (size_t i = 0; i < count; i++) {
      const uint64_t offset = frames[i] - StackTable::kKernelBase;
      data[i] = offset <= UINT32_MAX ? static_cast<uint32_t>(offset) : UINT32_MAX;
    }
    return count;
  }
  for (size_t i = 0; i < count; i++) {
    data[2 * i] = static_cast<uint32_t>(frames[i]);
    data[2 * i + 1] = static_cast<uint32_t>(frames[i] >> 32);
  }
  return 2 * count;
}

}  // namespace

StackKind StackTable::View::kind() const {
  return entry_->kind;
}

size_t StackTable::View::size() const {
  return entry_->kind == StackKind::kKernel ? entry_->words : entry_->words / 2;
}

uint64_t StackTable::View::operator[](size_t index) const {
  if (entry_->kind == StackKind::kKernel) return kKernelBase + entry_->data[index];
  return entry_->data[2 * index] | uint64_t{entry_->data[2 * index + 1]} << 32;
}

Result<void> StackTable::open() {
  for (auto& page : heads_) {
    trace_memory_prepare();
    void* memory = trace_page_take();
    if (!memory) {
      clear();
      return Errno::ENOMEM;
    }
    page = static_cast<Head*>(memory);
    for (uint32_t i = 0; i < kHeadsPerPage; i++) new (&page[i]) Head(nullptr);
  }
  return {};
}

void StackTable::clear() {
  pages_.clear();
  page_offset_ = kPageSize;
  stacks_.store(0, std::memory_order_relaxed);
  for (auto& page : heads_) {
    if (page) trace_page_free(page);
    page = nullptr;
  }
}

StackTable::Entry* StackTable::find(Entry* first, StackKind kind, uint32_t hash, const uint32_t* data, size_t words) {
  for (Entry* entry = first; entry; entry = entry->next.load(std::memory_order_acquire)) {
    if (entry->hash == hash && entry->words == words && entry->kind == kind && equal_words(entry->data, data, words)) {
      return entry;
    }
  }
  return nullptr;
}

StackTable::Entry* StackTable::make_entry(size_t words) {
  const size_t size = align_up(offsetof(Entry, data) + words * sizeof(uint32_t), kGranule);
  if (page_offset_ + size > kPageSize) {
    if (!pages_.append()) return nullptr;
    page_offset_ = kGranule;
  }
  const uint32_t page = pages_.size() - 1;
  auto* entry = reinterpret_cast<Entry*>(static_cast<char*>(pages_[page]) + page_offset_);
  entry->id = static_cast<uint32_t>(page * kPlacesPerPage + page_offset_ / kGranule);
  page_offset_ += size;
  return entry;
}

uint32_t StackTable::intern(StackKind kind, const uint64_t* frames, size_t count) {
  uint32_t data[kMaxWords];
  const size_t words = pack(kind, frames, std::min(count, kMaxFrames), data);
  const uint32_t hash = hash_words(kind, data, words);
  Head& chain = head(hash);
  if (Entry* entry = find(chain.load(std::memory_order_acquire), kind, hash, data, words)) return entry->id;

  Guard guard(lock_);
  Entry* first = chain.load(std::memory_order_relaxed);
  if (Entry* entry = find(first, kind, hash, data, words)) return entry->id;  // another CPU was faster
  Entry* entry = make_entry(words);
  if (!entry) return 0;
  new (&entry->next) std::atomic<Entry*>(first);
  entry->hash = hash;
  entry->words = static_cast<uint16_t>(words);
  entry->kind = kind;
  memcpy(entry->data, data, words * sizeof(uint32_t));
  chain.store(entry, std::memory_order_release);
  stacks_.store(stacks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return entry->id;
}

StackTable::View StackTable::view(uint32_t id) const {
  if (id == 0) return {};
  const auto* page = static_cast<const char*>(pages_[id / kPlacesPerPage]);
  return View(reinterpret_cast<const Entry*>(page + id % kPlacesPerPage * kGranule));
}
