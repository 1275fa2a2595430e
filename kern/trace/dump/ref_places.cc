#include "trace/dump/ref_places.h"

#include <algorithm>
#include <tuple>

#include "lib/format.h"

namespace {

constinit RefFinder ref_finder = nullptr;

}  // namespace

void trace_register_ref_finder(RefFinder finder) {
  ref_finder = finder;
}

RefFinder trace_ref_finder() {
  return ref_finder;
}

Result<void> RefPlaces::begin(size_t count) {
  size_ = wanted_ = 0;
  name_count_ = 0;
  TRY(entries_.reserve(count));
  return names_.reserve(kNames);
}

void RefPlaces::add(uint64_t number, uint64_t object, StackId stack, RefKind kind) {
  if (wanted_++ < entries_.capacity())
    entries_[size_++] = {number, object, stack, kind, {Where::kNowhere, kNoName, 0, 0, 0}};
}

void RefPlaces::sort_by_number() {
  std::ranges::sort(all(), {}, &Entry::number);
}

RefPlaces::Entry* RefPlaces::find(uint64_t number) {
  const auto found = std::ranges::lower_bound(all(), number, {}, &Entry::number);
  return found != all().end() && found->number == number ? &*found : nullptr;
}

// Searches backwards, since usually the last reference had the same name.
uint16_t RefPlaces::add_name(uint64_t key, const char* name) {
  for (uint16_t i = name_count_; i-- > 0;) {
    if (names_[i].key == key) return i;
  }
  if (name_count_ == std::min<size_t>(kNames, names_.capacity())) return kNoName;
  names_[name_count_].key = key;
  ::format(names_[name_count_].text, sizeof(names_[0].text), "%s", name);
  return name_count_++;
}

void RefPlaces::sort_by_stack() {
  std::ranges::sort(all(), {}, [](const Entry& entry) {
    return std::tuple(entry.kind, entry.stack, !entry.is_found(), entry.number);
  });
}

std::span<const RefPlaces::Entry> RefPlaces::of_stack(StackId stack) const {
  const auto first = std::ranges::lower_bound(all(), stack, {}, &Entry::stack);
  return {first, std::ranges::upper_bound(first, all().end(), stack, {}, &Entry::stack)};
}

int RefPlaces::format(char* buffer, size_t size, const Location& place) const {
  const char* const name = place.name == kNoName ? "?" : names_[place.name].text;
  switch (place.where) {
    case Where::kNowhere:
      break;
    case Where::kStackApart:
    case Where::kStack: {
      const char* const perhaps = place.where == Where::kStack ? "" : "perhaps ";
      if (place.pid == 0)
        return ::format(buffer, size, "%son the kernel stack of task %s", perhaps, name);
      return ::format(buffer, size, "%son the kernel stack of pid %u %s", perhaps, place.pid, name);
    }
    case Where::kUnreachedObject:
    case Where::kObject:
      return ::format(buffer, size, "at +0x%lx of %s 0x%lx%s", place.address - place.holder, name,
                      place.holder,
                      place.where == Where::kObject ? "" : ", which nobody can reach");
    case Where::kStatic:
      return ::format(buffer, size, "in static data at 0x%lx", place.address);
  }
  return ::format(buffer, size, "nowhere found");
}
