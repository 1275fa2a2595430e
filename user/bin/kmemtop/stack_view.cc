#include "stack_view.h"

#include <algorithm>
#include <vector>

namespace {

using std::chrono::steady_clock;

struct Line {
  std::string text;
  Style style;
};

std::string title_of(const std::string& name, const Source* source) {
  if (source == nullptr || source->gone != 0) return ' ' + name + "  is gone";
  const std::string_view type = source->now.is_arena        ? "arena"
                                : source->now.is_references ? "references"
                                                            : "cache";
  std::string title =
      ' ' + name + "  " + std::string(type) + "  " + short_count(source->live()) + " live";
  if (!source->now.is_references)
    title += "  " + short_bytes(source->now.allocated_bytes) + " bytes";
  return title + "  " + short_rate(source->rate) + " a second  " + signed_count(source->change()) +
         " since the start";
}

std::vector<Line> lines_of(const TopStacks& stacks) {
  std::vector<Line> lines;
  if (stacks.state == "off") {
    lines.push_back(
        {"Not traced. t starts the trace: what is allocated from then on.", Style::kPlain});
    return lines;
  }
  if (stacks.groups.empty())
    lines.push_back({"Nothing that the trace has recorded is live.", Style::kPlain});
  for (const StackGroup& group : stacks.groups) {
    lines.push_back({group.heading, Style::kBold});
    for (const std::string& line : group.lines) lines.push_back({"    " + line, Style::kPlain});
    lines.push_back({"", Style::kPlain});
  }
  if (stacks.more) lines.push_back({"The rest: cat '#mem/kmemtrace/NAME'.", Style::kDim});
  return lines;
}

}  // namespace

void StackView::open(const std::string& name, bool references) {
  name_ = name;
  references_ = references;
  stacks_ = TopStacks();
  first_ = 0;
  read();
}

void StackView::read() {
  constexpr int kShare = 10;
  const auto begin = steady_clock::now();
  next_ = begin + std::chrono::seconds(1);  // if read_stacks() throws
  TopStacks stacks = read_stacks(name_);
  stacks_ = std::move(stacks);
  const auto end = steady_clock::now();
  next_ = end + (end - begin) * kShare;
}

bool StackView::due() const {
  return !references_ && steady_clock::now() >= next_;
}

void StackView::scroll(long by) {
  first_ = static_cast<std::size_t>(std::max(0L, static_cast<long>(first_) + by));
}

void StackView::draw(Terminal& terminal, const Source* source) {
  constexpr int kHeading = 4, kFoot = 2;
  terminal.put_line(0, title_of(name_, source), Style::kBar);
  if (!stacks_.state.empty()) {
    const bool running = stacks_.state == "running";
    terminal.put(1, 1, "trace " + stacks_.state, running ? Style::kTraced : Style::kBold);
    if (!stacks_.summary.empty())
      terminal.put(1, 9 + static_cast<int>(stacks_.state.size()), stacks_.summary);
  }
  if (source != nullptr) {
    const auto width = static_cast<std::size_t>(std::clamp(terminal.columns() - 7, 0, 64));
    const std::vector<int64_t> values = source->history.last(width);
    terminal.put(2, 1, "live");
    terminal.put(2, 6, spark_line(values, values.size(), terminal.glyphs()), Style::kDim);
  }
  const std::vector<Line> lines = lines_of(stacks_);
  const auto height = static_cast<std::size_t>(std::max(1, terminal.rows() - kHeading - kFoot));
  first_ = std::min(first_, lines.size() > height ? lines.size() - height : 0);
  for (std::size_t i = first_; i < lines.size() && i < first_ + height; i++)
    terminal.put(kHeading + static_cast<int>(i - first_), 1, lines[i].text, lines[i].style);
}
