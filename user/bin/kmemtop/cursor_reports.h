// Finds a terminal's answers among the keys that a person types.
//
// A serial line does not tell the size of the terminal at its other end, nor that it was resized.
// But a terminal answers ESC [ 6 n with the position of its cursor, ESC [ ROW ; COLUMN R. So
// kmemtop moves the cursor far beyond the lower right corner, and asks for its position: the
// terminal has stopped the cursor in the corner. Another question shows whether the terminal takes
// UTF-8: if so, a character of two bytes has moved the cursor by one column. The answers arrive
// among the keys, or never.
#pragma once

#include <optional>
#include <vector>

class CursorReports {
 public:
  struct Report {
    int row, column;  // both counted from 1
  };
  static constexpr int kEscape = 27;

  // Expects this number of answers. Until all have arrived, or drop() is called, an escape may be
  // the beginning of an answer.
  void expect(unsigned answers) { expected_ = answers; }
  bool expecting() const { return expected_ > 0; }

  // Takes the next key from the input, and returns the answer that it completes, if any. A key that
  // may belong to an answer is held back. Keys that belong to no answer are added to `typed`.
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

  // Expects no more answers. Keys that were held back are added to `typed`.
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
