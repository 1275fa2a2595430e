#include "store/stack_table.h"

#include <algorithm>
#include <new>

#include "lib/string.h"

uint64_t StackTable::pack(StackKind kind, const uint64_t* frames, size_t count, uint32_t* data) {
  uint64_t sum = 0;
  if (kind == StackKind::kKernel) {
    for (size_t i = 0; i < count; i++) {
      data[i] = packs(frames[i]) ? static_cast<uint32_t>(frames[i]) : UINT32_MAX;
      sum += weight(unpacked(data[i]), i);
    }
    return key_of(kind, count, sum);
  }
  for (size_t i = 0; i < count; i++) {
    data[2 * i] = static_cast<uint32_t>(frames[i]);
    data[2 * i + 1] = static_cast<uint32_t>(frames[i] >> 32);
    sum += weight(frames[i], i);
  }
  return key_of(kind, 2 * count, sum);
}

StackKind StackTable::View::kind() const {
  return entry_->kind();
}

size_t StackTable::View::size() const {
  return kind() == StackKind::kKernel ? entry_->words() : entry_->words() / 2;
}

uint64_t StackTable::View::operator[](size_t index) const {
  if (kind() == StackKind::kKernel) return unpacked(entry_->data[index]);
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
  // No hook is to make a directory for the first stack.
  trace_memory_prepare();
  if (!pages_.obtain(0)) {
    clear();
    return Errno::ENOMEM;
  }
  return {};
}

void StackTable::clear() {
  pages_.clear();
  end_.store(kNothing, std::memory_order_relaxed);
  stacks_.store(0, std::memory_order_relaxed);
  for (auto& page : heads_) {
    if (page) trace_page_free(page);
    page = nullptr;
  }
}

// A page that was begun is in the directory: whoever begins one puts it there before.
inline StackTable::Reservation StackTable::reserve(size_t words) {
  const auto size =
      static_cast<uint32_t>(align_up(offsetof(Entry, data) + words * sizeof(uint32_t), kGranule));
  End before = end_.load(std::memory_order_acquire);
  End after;
  do {
    after = {before.pages, before.offset + size};
    if (after.offset > kPageSize) [[unlikely]] {
      after = {before.pages + 1, kGranule + size};
      if (!pages_.obtain(before.pages)) return {};
    }
    // What was written to a place that was given back comes before what is written to it now.
  } while (!end_.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                       std::memory_order_acquire));
  const uint32_t page = after.pages - 1;
  const uint32_t offset = after.offset - size;
  auto* entry = reinterpret_cast<Entry*>(static_cast<char*>(pages_[page]) + offset);
  entry->id = static_cast<uint32_t>(page * kPlacesPerPage + offset / kGranule);
  return {entry, before, after};
}

void StackTable::give_back(Reservation reservation) {
  end_.compare_exchange_strong(reservation.after, reservation.before, std::memory_order_release,
                               std::memory_order_relaxed);
}

uint32_t StackTable::intern(StackKind kind, const uint64_t* frames, size_t count) {
  bool known;
  return intern(kind, frames, count, &known);
}

uint32_t StackTable::intern(StackKind kind, const uint64_t* frames, size_t count, bool* known) {
  uint32_t data[kMaxWords];
  const uint64_t key = pack(kind, frames, std::min(count, kMaxFrames), data);
  return find_or_add(key, data, known);
}

uint32_t StackTable::intern_packed(std::span<const uint32_t> frames, uint64_t sum) {
  bool known;
  return find_or_add(key_of(StackKind::kKernel, frames.size(), sum), frames.data(), &known);
}

uint32_t StackTable::intern_pair(Pair pair) {
  const uint32_t data[] = {pair.stack, pair.user_stack};
  bool known;
  return find_or_add(key_of(pair), data, &known);
}

uint32_t StackTable::find_or_add(uint64_t key, const uint32_t* data, bool* known) {
  Entry* const first = head(key).load(std::memory_order_acquire);
  const Entry* entry = find(first, nullptr, key, data);
  *known = entry != nullptr;
  return entry ? entry->id : add(first, key, data);
}

uint32_t StackTable::add(Entry* first, uint64_t key, const uint32_t* data) {
  const Reservation reservation = reserve(words_of(key));
  Entry* entry = reservation.entry;
  if (!entry) return 0;
  Head& chain = head(key);
  new (&entry->next) std::atomic<Entry*>(first);
  entry->key = key;
  copy(entry->data, data, words_of(key));
  while (!chain.compare_exchange_weak(first, entry, std::memory_order_release,
                                      std::memory_order_acquire)) {
    const Entry* searched = entry->next.load(std::memory_order_relaxed);
    if (Entry* other = find(first, searched, key, data)) {
      give_back(reservation);
      return other->id;
    }
    entry->next.store(first, std::memory_order_relaxed);
  }
  if (entry->kind() != StackKind::kPair) stacks_.fetch_add(1, std::memory_order_relaxed);
  return entry->id;
}

StackTable::View StackTable::view(uint32_t id) const {
  return id == 0 ? View() : View(&at(id));
}
