// Finds a terminal's answers among the keys that a person types.
//
// A program on a serial line does not learn the terminal's size, nor that the size has changed. But
// a terminal answers ESC [ 6 n with the position of its cursor, ESC [ ROW ; COLUMN R. To find the
// size, kmemtop moves the cursor far beyond the lower right corner and asks for the position. The
// terminal stops the cursor in the corner, so the answer is the size.
//
// kmemtop also finds out whether the terminal takes UTF-8. It writes a character of two bytes and
// asks for the position. With UTF-8 the cursor has moved by one column, otherwise by two. The
// answers arrive among the keys, and some terminals never answer.
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

  // Takes the next key from the input. If this key completes an answer, returns the answer. Holds
  // back a key that may belong to an answer. Adds keys that belong to no answer to `typed`.
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

  // Expects no more answers. Adds the keys that were held back to `typed`.
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
