#include "judge.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace {

constexpr double kMicroseconds = 1e6;
// One test alone, without the correction for many tests, shows growth if its p is at most kAlone.
constexpr double kAlone = 0.05;

}  // namespace

bool Judge::Source::grows() const {
  return std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& of) { return of.grows; });
}

std::size_t Judge::Source::surest_level() const {
  const auto surest =
      std::min_element(verdicts.begin(), verdicts.end(), [](const Verdict& a, const Verdict& b) {
        return std::tuple(!a.grows, a.p, a.alone) < std::tuple(!b.grows, b.p, b.alone);
      });
  return static_cast<std::size_t>(surest - verdicts.begin());
}

bool Judge::add(double seconds, const std::vector<Live>& sample) {
  const uint64_t looks_before = looks();
  now_ = seconds;
  if (samples_ == 0) {
    window_start_ = seconds;
    window_end_ = seconds + window_;
  } else if (seconds >= window_end_) {
    end_window();
    // Skips windows without any sample, because kmemwatch may not have run for a while.
    window_end_ += window_ * (std::floor((seconds - window_end_) / window_) + 1);
    window_start_ = seconds;
  }
  samples_++;
  for (const Live& live : sample) {
    Source& source = sources_[live.name];
    source.low_objects =
        source.in_window ? std::min(source.low_objects, live.objects) : live.objects;
    source.low_bytes = source.in_window ? std::min(source.low_bytes, live.bytes) : live.bytes;
    source.in_window = true;
    source.last_objects = live.objects;
    source.seen = samples_;
  }
  std::erase_if(sources_, [&](const auto& item) { return item.second.seen != samples_; });
  return looks() != looks_before;
}

void Judge::end_window() {
  for (auto& [name, source] : sources_) {
    source.objects.add(windows_, source.low_objects);
    source.bytes.add(windows_, source.low_bytes);
    source.in_window = false;
  }
  starts_.add(windows_, std::llround(window_start_ * kMicroseconds));
  for (std::size_t level = 0; level < Windows::kLevels && Windows::ends(windows_, level); level++) {
    const uint64_t of_level = (windows_ + 1) >> level;
    if (of_level >= kFewest && (of_level - kFewest) % kStride == 0)
      look(level, (of_level - kFewest) / kStride + 1);
  }
  windows_++;
}

void Judge::look(std::size_t level, uint64_t number) {
  std::vector<Source*> tested;
  std::vector<double> alone;
  for (auto& [name, source] : sources_) {
    const std::vector<int64_t> minima = source.objects.minima(level);
    if (minima.size() < kFewest) continue;
    tested.push_back(&source);
    alone.push_back(growth_p(minima));
  }
  const double j = static_cast<double>(number);
  const double share = 1 / (std::exp2(static_cast<double>(level + 1)) * j * (j + 1));
  const std::vector<double> p = holm(alone);
  for (std::size_t i = 0; i < tested.size(); i++) {
    Source& source = *tested[i];
    const bool grew = source.grows();
    Verdict& verdict = source.verdicts[level];
    verdict.alone = alone[i];
    verdict.p = std::min(1.0, p[i] / share);
    const bool shown = verdict.p <= alpha_ || (verdict.grows && alone[i] <= kAlone);
    verdict.grows = shown && keeps_growing(source.objects.minima(level));
    if (!source.grows()) {
      source.best_p = 1;
    } else {
      if (!grew) source.since = now_;
      source.best_p = std::min(source.best_p, verdict.p);
    }
  }
}

std::set<std::string> Judge::growing() const {
  std::set<std::string> names;
  for (const auto& [name, source] : sources_)
    if (source.grows()) names.insert(name);
  return names;
}

std::vector<Growth> Judge::ranked() const {
  std::vector<Growth> all;
  for (const auto& [name, source] : sources_) {
    const std::size_t level = source.surest_level();
    const Verdict& verdict = source.verdicts[level];
    const std::vector<int64_t> objects = source.objects.minima(level);
    std::vector<double> times;
    for (const int64_t start : starts_.minima(level))
      times.push_back(static_cast<double>(start) / kMicroseconds);
    times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(objects.size()));
    all.push_back({.name = name,
                   .objects = source.last_objects,
                   .objects_a_second = theil_sen(times, objects),
                   .bytes_a_second = theil_sen(times, source.bytes.minima(level)),
                   .p = source.grows() ? source.best_p : verdict.p,
                   .alone = verdict.alone,
                   .grows = source.grows(),
                   .since = source.since});
  }
  std::stable_sort(all.begin(), all.end(), [](const Growth& a, const Growth& b) {
    return std::tuple(!a.grows, a.p, a.alone) < std::tuple(!b.grows, b.p, b.alone);
  });
  return all;
}
