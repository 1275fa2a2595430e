#include "table_view.h"

#include <algorithm>

namespace {

constexpr std::size_t kLeastName = 18, kMostName = 40, kLeastTrend = 4;
constexpr std::size_t kOthers = 49;  // columns besides name and trend, with the blanks between

struct Widths {
  std::size_t name, trend;
};

// As the terminal gets wider, first the column of trends grows to 14 characters, then the column of
// names to the longest name (at most kMostName), then the column of trends again.
Widths widths_of(std::size_t columns, std::size_t longest_name) {
  const std::size_t left = columns > kOthers ? columns - kOthers : 0;
  const std::size_t wanted = std::clamp(longest_name, kLeastName, kMostName);
  const std::size_t name = std::clamp(left > 14 ? left - 14 : 0, kLeastName, wanted);
  const std::size_t trend = left > name + kLeastTrend ? left - name : 0;
  return {.name = name, .trend = std::min(trend, History::kLength)};
}

std::string_view trace_of(const Source& source) {
  if (source.gone != 0) return "gone";
  if (source.now.trace == "running") return "traced";
  if (source.now.trace == "never") return "-";
  return source.now.trace == "off" ? "" : source.now.trace;
}

std::string numbers_of(const Source& source) {
  return ' ' + std::string(1, source.type()) + ' ' + right(short_count(source.live()), 8) + ' ' +
         right(source.now.is_references ? "-" : short_bytes(source.now.allocated_bytes), 8) + ' ' +
         right(short_rate(source.rate), 8) + ' ' + right(signed_count(source.change()), 8) + "  ";
}

void draw_heading(Terminal& terminal, Widths widths, SortKey key) {
  struct Column {
    std::string_view title;
    std::size_t end;  // column after the title's last character; titles are right-aligned
    SortKey key;
  };
  const std::size_t name = widths.name;
  terminal.put_line(1, "", Style::kPlain);
  terminal.put(1, 0, "NAME", key == SortKey::kName ? Style::kBarMarked : Style::kBold);
  terminal.put(1, static_cast<int>(name) + 1, "T", Style::kBold);
  for (const auto& [title, end, its_key] :
       {Column{"LIVE", name + 11, SortKey::kLive}, Column{"BYTES", name + 20, SortKey::kBytes},
        Column{"RATE/S", name + 29, SortKey::kRate}, Column{"CHANGE", name + 38, SortKey::kChange}})
    terminal.put(1, static_cast<int>(end - title.size()), title,
                 key == its_key ? Style::kBarMarked : Style::kBold);
  const int after = static_cast<int>(name) + 40;
  if (widths.trend > 0) terminal.put(1, after, left("TREND", widths.trend), Style::kBold);
  terminal.put(1, after + static_cast<int>(widths.trend) + 1, "TRACE", Style::kBold);
}

void draw_source(Terminal& terminal, int row, const Source& source, Widths widths, bool chosen) {
  const std::string name = left(source.now.name, widths.name), numbers = numbers_of(source);
  const std::string trend =
      spark_line(source.history.last(widths.trend), widths.trend, terminal.glyphs());
  const std::string trace(trace_of(source));
  if (chosen) {
    terminal.put_line(row, name + numbers + trend + ' ' + trace, Style::kBar);
    return;
  }
  const bool traced = source.now.trace == "running" && source.gone == 0;
  const Style style = source.gone != 0  ? Style::kDim
                      : source.rate > 0 ? Style::kGrows
                                        : Style::kPlain;
  int column = 0;
  terminal.put(row, column, name, style);
  column += static_cast<int>(name.size());
  terminal.put(row, column, numbers, source.gone != 0 ? Style::kDim : Style::kPlain);
  column += static_cast<int>(numbers.size());
  terminal.put(row, column, trend, Style::kDim);
  column += static_cast<int>(widths.trend) + 1;
  terminal.put(row, column, trace, traced ? Style::kTraced : Style::kDim);
}

}  // namespace

std::size_t Cursor::line(const std::vector<const Source*>& rows) const {
  if (name_.empty() || rows.empty()) return 0;
  for (std::size_t i = 0; i < rows.size(); i++)
    if (rows[i]->now.name == name_) return i;
  return std::min(last_, rows.size() - 1);
}

void Cursor::move(const std::vector<const Source*>& rows, long by) {
  if (rows.empty()) return;
  last_ = static_cast<std::size_t>(
      std::clamp(static_cast<long>(line(rows)) + by, 0L, static_cast<long>(rows.size()) - 1));
  name_ = rows[last_]->now.name;
}

std::size_t Cursor::first_shown(const std::vector<const Source*>& rows, std::size_t height) {
  last_ = line(rows);
  if (height == 0) return first_ = last_;
  if (last_ < first_) first_ = last_;
  if (last_ >= first_ + height) first_ = last_ - height + 1;
  first_ = std::min(first_, rows.size() > height ? rows.size() - height : 0);
  return first_;
}

void draw_table(Terminal& terminal, const std::vector<const Source*>& rows, Cursor& cursor,
                std::size_t longest_name, SortKey key) {
  const Widths widths = widths_of(static_cast<std::size_t>(terminal.columns()), longest_name);
  const auto height = static_cast<std::size_t>(std::max(0, terminal.rows() - kRowsAround));
  draw_heading(terminal, widths, key);
  const std::size_t first = cursor.first_shown(rows, height), chosen = cursor.line(rows);
  for (std::size_t i = first; i < rows.size() && i < first + height; i++)
    draw_source(terminal, static_cast<int>(i - first) + 2, *rows[i], widths, i == chosen);
}
