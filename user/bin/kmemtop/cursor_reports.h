// A terminal's answers among the keys that a person types.
//
// A serial line does not tell the size of the terminal at its other end, nor that it was resized.
// But a terminal answers ESC [ 6 n with the position of its cursor, ESC [ ROW ; COLUMN R. So the
// cursor is sent far beyond the lower right corner, where it stays in the corner, and its position
// is asked for. The same shows whether the terminal takes UTF-8: then a character of two bytes
// moves the cursor by one column. kmemtop does not wait for the answer; it comes among the keys, or
// not at all.
#pragma once

#include <optional>
#include <vector>

class CursorReports {
 public:
  struct Report {
    int row, column;  // from 1 on
  };
  static constexpr int kEscape = 27;

  // `answers` are expected: until they arrive, or drop() is called, an escape may be the beginning
  // of one.
  void expect(unsigned answers) { expected_ = answers; }
  bool expecting() const { return expected_ > 0; }

  // The next key that has arrived. Keys that turn out to be typed ones are added to `typed`.
  std::optional<Report> take(int key, std::vector<int>& typed) {
    if (held_.empty() && (key != kEscape || expected_ == 0)) {
      typed.push_back(key);
      return {};
    }
    held_.push_back(key);
    if (held_.size() == 1 || (held_.size() == 2 && key == '[')) return {};
    const bool parameter = (key >= '0' && key <= '9') || key == ';';
    if (held_.size() > 2 && parameter && held_.size() < kLongest) return {};
    const std::optional<Report> report = key == 'R' ? report_of(held_) : std::nullopt;
    if (report)
      expected_--;
    else
      typed.insert(typed.end(), held_.begin(), held_.end());
    held_.clear();
    return report;
  }

  // Expects no more answers; keys that were held back for them were typed.
  void drop(std::vector<int>& typed) {
    typed.insert(typed.end(), held_.begin(), held_.end());
    held_.clear();
    expected_ = 0;
  }

 private:
  static constexpr std::size_t kLongest = 12;  // ESC [ 9999 ; 9999 R
  static constexpr int kMost = 9999;

  static std::optional<Report> report_of(const std::vector<int>& keys) {
    int numbers[2] = {0, 0};
    std::size_t at = 0;
    for (std::size_t i = 2; i + 1 < keys.size(); i++) {
      if (keys[i] == ';') {
        if (++at == 2) return {};
        continue;
      }
      numbers[at] = numbers[at] * 10 + (keys[i] - '0');
      if (numbers[at] > kMost) return {};
    }
    if (at != 1 || numbers[0] == 0 || numbers[1] == 0) return {};
    return Report{.row = numbers[0], .column = numbers[1]};
  }

  unsigned expected_ = 0;
  std::vector<int> held_;
};
