#include "sources.h"

#include <algorithm>
#include <iterator>

namespace {

constexpr std::array<std::string_view, 5> kKeys = {"name", "live", "bytes", "rate", "change"};

// Compares by this key alone. Returns less than 0 if `a` comes first, more than 0 if `b` comes
// first, 0 if neither does.
int compare(SortKey key, const Source& a, const Source& b) {
  const auto larger_first = [](auto left, auto right) { return (left < right) - (right < left); };
  switch (key) {
    case SortKey::kName:
      return a.now.name.compare(b.now.name);
    case SortKey::kLive:
      return larger_first(a.live(), b.live());
    case SortKey::kBytes:
      return larger_first(a.now.allocated_bytes, b.now.allocated_bytes);
    case SortKey::kRate:
      return larger_first(a.rate, b.rate);
    case SortKey::kChange:
      return larger_first(a.change(), b.change());
  }
  return 0;
}

bool comes_first(SortKey key, SortOrder order, const Source& a, const Source& b) {
  if (const int by_key = compare(key, a, b))
    return order == SortOrder::kUsual ? by_key < 0 : by_key > 0;
  for (const SortKey next : {SortKey::kRate, SortKey::kBytes, SortKey::kLive})
    if (const int by_next = compare(next, a, b)) return by_next < 0;
  return a.now.name < b.now.name;
}

}  // namespace

std::vector<int64_t> History::last(std::size_t most) const {
  std::vector<int64_t> values;
  const uint64_t all = std::min<uint64_t>({count_, kLength, most});
  values.reserve(all);
  for (uint64_t i = count_ - all; i < count_; i++) values.push_back(values_[i % kLength]);
  return values;
}

std::string_view name_of(SortKey key) {
  return kKeys[static_cast<std::size_t>(key)];
}

std::optional<SortKey> sort_key(std::string_view name) {
  const auto found = std::find(kKeys.begin(), kKeys.end(), name);
  if (found == kKeys.end()) return {};
  return static_cast<SortKey>(std::distance(kKeys.begin(), found));
}

void Sources::refresh(double seconds, const std::vector<KmemstatLine>& lines) {
  for (auto& [name, source] : sources_) source.gone++;
  for (const KmemstatLine& line : lines) {
    auto [at, is_new] = sources_.try_emplace(line.name);
    Source& source = at->second;
    if (is_new || source.gone > 1 || line.allocations < source.now.allocations ||
        line.object_size != source.now.object_size) {
      source = Source();
      if (!last_) source.at_start = static_cast<int64_t>(line.live);
    } else {
      const double since = seconds - *last_;
      const auto more = static_cast<int64_t>(line.live) - source.live();
      source.rate = since > 0 ? static_cast<double>(more) / since : 0;
    }
    source.now = line;
    source.gone = 0;
    source.history.add(source.live());
  }
  std::erase_if(sources_, [](const auto& entry) { return entry.second.gone > kGoneShown; });
  for (auto& [name, source] : sources_)
    if (source.gone != 0) source.rate = 0;
  last_ = seconds;
}

void Sources::set_trace(const std::string& name, std::string_view state) {
  if (const auto found = sources_.find(name); found != sources_.end())
    found->second.now.trace = state;
}

std::vector<const Source*> Sources::sorted(SortKey key, SortOrder order, Which which,
                                           std::string_view filter) const {
  std::vector<const Source*> found;
  found.reserve(sources_.size());
  for (const auto& [name, source] : sources_)
    if (name.find(filter) != name.npos && (which == Which::kAll || source.now.trace != "never"))
      found.push_back(&source);
  std::sort(found.begin(), found.end(),
            [&](const Source* a, const Source* b) { return comes_first(key, order, *a, *b); });
  return found;
}

const Source* Sources::find(const std::string& name) const {
  const auto found = sources_.find(name);
  return found == sources_.end() ? nullptr : &found->second;
}

std::size_t Sources::count() const {
  return static_cast<std::size_t>(std::count_if(
      sources_.begin(), sources_.end(), [](const auto& entry) { return entry.second.gone == 0; }));
}

std::size_t Sources::traced() const {
  return static_cast<std::size_t>(
      std::count_if(sources_.begin(), sources_.end(), [](const auto& entry) {
        return entry.second.gone == 0 && entry.second.now.trace == "running";
      }));
}

std::size_t Sources::longest_name() const {
  std::size_t longest = 0;
  for (const auto& [name, source] : sources_) longest = std::max(longest, name.size());
  return longest;
}
