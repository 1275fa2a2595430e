#include "screen.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>

#include "sources.h"
#include "stack_view.h"
#include "table_view.h"
#include "terminal.h"
#include "tool/end_signals.h"
#include "tool/kmemstat.h"
#include "tool/touch_pages.h"
#include "traces.h"

namespace {

using std::chrono::duration, std::chrono::milliseconds, std::chrono::steady_clock;

constexpr std::string_view kTableKeys =
    " t trace  Enter stacks  n l b r c sort  R reverse  / filter  ? help  q quit";
constexpr std::string_view kStackKeys =
    " t start/stop  x end trace  Space read again  arrows scroll  Esc back  q quit";
constexpr std::string_view kFilterKeys = " Enter keeps the filter  Esc shows all";
constexpr std::string_view kHelpKeys = " any key: back  q quit";

constexpr std::string_view kHelp[] = {
    "t            start or stop the trace of this line, and show its stacks",
    "Enter        show its stacks; of references, as they are now: Space reads again",
    "x            end its trace, and give its memory back",
    "",
    "n l b r c    sort by name, live objects, bytes, rate, change",
    "R            the other way round",
    "/            show only names that contain some text; Esc shows all of them",
    "a            show also what cannot be traced: the allocator's, quantum caches",
    "",
    "arrows j k   move; PgUp PgDn; Home, g: to the top, and stay there; End, G",
    "Esc          back to the table",
    "^L           draw again, in the size that the terminal has now",
    "q            quit; traces go on",
    "",
    "T            A arena, S cache, R references",
    "RATE/S       live objects that came in a second, less those that went",
    "CHANGE       of live objects, since kmemtop was started",
    "TREND        live objects at the last refreshes, from least to most",
    "TRACE        traced, stopped; - cannot be traced; gone: the source is not there",
};

class Screen {
 public:
  explicit Screen(const Arguments& arguments)
      : arguments_(arguments),
        key_(arguments.key),
        order_(arguments.order),
        which_(arguments.all ? Which::kAll : Which::kTraceable),
        filter_(arguments.filter),
        terminal_((must_have_counts(), arguments.ascii ? Glyphs::kAscii : Glyphs::kUtf8)),
        message_(why_no_traces()) {
    // The first draw() allocates memory for the size of the terminal. The counts at the start are
    // read after this draw(), so that kmemtop's own memory does not appear as growth.
    constexpr milliseconds kForAnAnswer(500);
    const auto end = start_ + kForAnAnswer;
    while (terminal_.asking() && wait_until(end) == EndSignals::Wake::kInput)
      terminal_.take_input();
    touch_all_pages();
    sources_.refresh(0, read_kmemstat());
    draw();
    sources_ = Sources();
    sources_.refresh(0, read_kmemstat());
    counts_ = true;
  }

  void run() {
    for (auto next = start_ + arguments_.interval;;) {
      draw();
      switch (wait_until(next)) {
        case EndSignals::Wake::kSignal:
          return;
        case EndSignals::Wake::kInput:
          if (!take_keys()) return;
          break;
        case EndSignals::Wake::kTime:
          if (!take_keys()) return;  // an Esc may have waited for the rest of an answer
          refresh();
          if (arguments_.count && refreshes_ >= *arguments_.count) return;
          while (next <= steady_clock::now()) next += arguments_.interval;
      }
    }
  }

 private:
  enum class View { kTable, kStacks, kHelp };

  // Throws if the counts cannot be read. The constructor calls this function before it changes the
  // terminal, so that the user sees the error.
  static void must_have_counts() { read_kmemstat(); }

  EndSignals::Wake wait_until(steady_clock::time_point then) const {
    const auto left = std::chrono::ceil<milliseconds>(then - steady_clock::now());
    return signals_.wait_for_input(STDIN_FILENO, std::max(left, milliseconds(0)));
  }

  void refresh() {
    refreshes_++;
    attempt([&] {
      sources_.refresh(duration<double>(steady_clock::now() - start_).count(), read_kmemstat());
    });
    if (view_ == View::kStacks && stacks_.due()) attempt([&] { stacks_.read(); });
  }

  template <typename Action>
  void attempt(Action action) {
    try {
      action();
    } catch (const std::exception& error) {
      message_ = error.what();
    }
  }

  std::vector<const Source*> rows() const { return sources_.sorted(key_, order_, which_, filter_); }

  void draw() {
    terminal_.clear();
    const int rows_on_screen = terminal_.rows();
    std::string keys;
    switch (view_) {
      case View::kTable:
        draw_title();
        draw_table(terminal_, rows(), cursor_, sources_.longest_name(), key_);
        keys = typing_filter_ ? kFilterKeys : kTableKeys;
        break;
      case View::kStacks:
        stacks_.draw(terminal_, sources_.find(stacks_.name()));
        keys = kStackKeys;
        break;
      case View::kHelp:
        terminal_.put_line(0, " kmemtop: keys and columns", Style::kBar);
        for (int row = 2; const std::string_view line : kHelp) terminal_.put(row++, 1, line);
        keys = kHelpKeys;
    }
    const std::string above = typing_filter_ ? " Filter: " + filter_ + '_' : ' ' + message_;
    terminal_.put_line(rows_on_screen - 2, above, typing_filter_ ? Style::kBold : Style::kError);
    terminal_.put_line(rows_on_screen - 1, keys, Style::kBar);
    terminal_.show();
  }

  void draw_title() {
    std::string title =
        " kmemtop  " +
        (counts_ ? clock_of(duration<double>(steady_clock::now() - start_).count()) : "starts") +
        "  " + std::to_string(sources_.count()) + " sources, " + std::to_string(sources_.traced()) +
        " traced  by " + std::string(name_of(key_)) +
        (order_ == SortOrder::kReversed ? ", reversed" : "");
    if (!filter_.empty()) title += "  with \"" + filter_ + '"';
    terminal_.put_line(0, title, Style::kBar);
  }

  // False if kmemtop is to end: after the key q, or if standard input is no terminal any more.
  bool take_keys() {
    while (const auto key = terminal_.key()) {
      if (*key == kRedraw) {
        terminal_.ask();
        continue;
      }
      if (!typing_filter_) message_.clear();
      if (typing_filter_)
        take_filter_key(*key);
      else if (*key == 'q')
        return false;
      else if (view_ == View::kHelp)
        view_ = View::kTable;
      else if (view_ == View::kStacks)
        take_stack_key(*key);
      else
        take_table_key(*key);
    }
    return isatty(STDIN_FILENO) != 0;
  }

  void take_filter_key(int key) {
    constexpr std::size_t kLongestFilter = 40;
    if (key == kEnter || key == kEscape) typing_filter_ = false;
    if (key == kEscape) filter_.clear();
    if (key == kErase && !filter_.empty()) filter_.pop_back();
    if (key > ' ' && key <= '~' && filter_.size() < kLongestFilter)
      filter_ += static_cast<char>(key);
  }

  void take_table_key(int key) {
    const std::vector<const Source*> shown = rows();
    const long page = std::max(1, terminal_.rows() - kRowsAround - 1);
    switch (key) {
      case kUp:
      case 'k':
        return cursor_.move(shown, -1);
      case kDown:
      case 'j':
        return cursor_.move(shown, 1);
      case kPageUp:
        return cursor_.move(shown, -page);
      case kPageDown:
      case ' ':
        return cursor_.move(shown, page);
      case kHome:
      case 'g':
        return cursor_.to_top();
      case kEnd:
      case 'G':
        return cursor_.to_end(shown);
      case 'n':
        return sort_by(SortKey::kName);
      case 'l':
        return sort_by(SortKey::kLive);
      case 'b':
        return sort_by(SortKey::kBytes);
      case 'r':
        return sort_by(SortKey::kRate);
      case 'c':
        return sort_by(SortKey::kChange);
      case 'R':
        order_ = order_ == SortOrder::kUsual ? SortOrder::kReversed : SortOrder::kUsual;
        return;
      case 'a':
        which_ = which_ == Which::kAll ? Which::kTraceable : Which::kAll;
        return;
      case '/':
        typing_filter_ = true;
        return;
      case kEscape:
        filter_.clear();
        return;
      case '?':
      case 'h':
        view_ = View::kHelp;
        return;
      default:
        break;
    }
    if (shown.empty()) return;
    const Source& chosen = *shown[cursor_.line(shown)];
    if (key == 't') toggle(chosen.now.name, true);
    if (key == 'x') end(chosen.now.name);
    if (key == kEnter) open_stacks(chosen.now);
  }

  void take_stack_key(int key) {
    const long page = std::max(1, terminal_.rows() - 7);
    switch (key) {
      case kEscape:
      case kEnter:
      case kErase:
        view_ = View::kTable;
        return;
      case kUp:
      case 'k':
        return stacks_.scroll(-1);
      case kDown:
      case 'j':
        return stacks_.scroll(1);
      case kPageUp:
        return stacks_.scroll(-page);
      case kPageDown:
        return stacks_.scroll(page);
      case kHome:
      case 'g':
        return stacks_.scroll_to_top();
      case ' ':
        return attempt([&] { stacks_.read(); });
      case 't':
        return toggle(stacks_.name(), false);
      case 'x':
        end(stacks_.name());
        if (message_.empty()) attempt([&] { stacks_.read(); });
        return;
      default:
        return;
    }
  }

  void sort_by(SortKey key) {
    key_ = key;
    order_ = SortOrder::kUsual;
  }

  void toggle(const std::string& name, bool open) {
    const Source* const source = sources_.find(name);
    if (source == nullptr) return;
    const bool was_running = source->now.trace == "running";
    message_ = toggle_trace(name, source->now.trace);
    if (!message_.empty()) return;
    sources_.set_trace(name, was_running ? "stopped" : "running");
    if (open)
      open_stacks(source->now);
    else
      attempt([&] { stacks_.read(); });
  }

  void end(const std::string& name) {
    const Source* const source = sources_.find(name);
    if (source == nullptr || source->now.trace == "never") return;
    message_ = end_trace(name, source->now.trace);
    if (message_.empty()) sources_.set_trace(name, "off");
  }

  void open_stacks(const KmemstatLine& source) {
    attempt([&] {
      stacks_.open(source.name, source.is_references);
      view_ = View::kStacks;
    });
  }

  const Arguments& arguments_;
  const EndSignals signals_;
  const steady_clock::time_point start_ = steady_clock::now();
  SortKey key_;
  SortOrder order_;
  Which which_;
  std::string filter_;
  bool typing_filter_ = false;
  Sources sources_;
  uint64_t refreshes_ = 1;
  bool counts_ = false;  // true when the counts at the start are read
  Terminal terminal_;
  std::string message_;
  View view_ = View::kTable;
  Cursor cursor_;
  StackView stacks_;
};

}  // namespace

void run_screen(const Arguments& arguments) {
  Screen(arguments).run();
}
