// Chooses the trace commands of an episode, predicts their effect on each trace, and checks the
// prediction.
#include "core/log.h"
#include "lib/format.h"
#include "sched/task.h"
#include "tests/proof_episode.h"

namespace proof {

namespace {

uint64_t word_hash(std::span<const Line> lines) {
  Hash hash;
  for (const Line& line : lines) hash.add(static_cast<uint64_t>(line.word));
  return hash.value();
}

}  // namespace

void History::add(const char* name, std::string_view text, int error) {
  char* entry = entries_[count_++ % kEntries];
  format(entry, kLength, "%s: %.*s: error %d", name, static_cast<int>(text.size()), text.data(),
         error);
  for (; *entry; entry++) {
    if (*entry == '\n') *entry = ';';
  }
}
void History::print() const {
  for (unsigned i = count_ > kEntries ? count_ - kEntries : 0; i < count_; i++) {
    klog("proof: command %u: %s", i, entries_[i % kEntries]);
  }
}

Line Episode::random_line(bool may_start) {
  Line line = {TraceWord::kMark, {}};
  const uint32_t kind = random_.below(8);
  if (kind < 3 && may_start) {
    line.word = TraceWord::kStart;
    if (random_.one_in(2)) line.options.depth = 1 + random_.below(random_.one_in(2) ? 64 : 4);
    if (random_.one_in(4)) line.options.min_size = random_.below(60);
    if (random_.one_in(4)) line.options.max_size = line.options.min_size + random_.below(300);
    if (random_.one_in(4)) line.options.pid = kFirstPid + random_.below(kUsualPids);
    if (random_.one_in(6)) line.options.sample = 1 + random_.below(2000);
    if (random_.one_in(4)) line.options.frees = true;
  } else if (kind < 5) {
    line.word = TraceWord::kStop;
  } else if (kind < 6) {
    line.word = TraceWord::kReset;
  }
  return line;
}

// Gives a command of one to three lines, to one source or to all.
void Episode::command() {
  Line lines[3];
  const unsigned count = random_.one_in(2) ? 1 : 1 + random_.below(3);
  bool may_start = true;
  for (unsigned i = 0; i < count; i++) {
    lines[i] = random_line(may_start);
    if (lines[i].word == TraceWord::kStart) may_start = false;
  }
  Account* one = nullptr;
  if (!random_.one_in(4)) {
    one = &accounts[random_.below(kAccounts)];
    if (!one->is_open()) return;
  }
  give({lines, count}, one);
}

// Ends the trace that a reader has chosen, while the reader opens its snapshot.
void Episode::end_chosen_trace() {
  Account* const account = workload.chosen.exchange(nullptr);
  if (!account || !account->is_open()) return;
  const Line lines[] = {{TraceWord::kStop, {}}, {TraceWord::kReset, {}}};
  give(lines, account);
}

// Predicts a line's effect on a trace. `passes_over` is true if the line is given to all sources: a
// mark then skips a source that is not traced, instead of failing.
Errno Episode::apply(Model& model, const Line& line, bool passes_over) {
  State& state = model.state;
  switch (line.word) {
    case TraceWord::kStart:
      if (state.phase == TracePhase::kRunning)
        return state.options == line.options ? Errno{} : Errno::EBUSY;
      // All records of a trace must have the same sampling rate.
      if (state.phase == TracePhase::kStopped && state.options.sample != line.options.sample)
        return Errno::EBUSY;
      if (state.phase == TracePhase::kOff) {
        state.generation++;
        model.mark = 0;
      }
      state.phase = TracePhase::kRunning;
      state.options = line.options;
      return {};
    case TraceWord::kStop:
      if (state.phase == TracePhase::kRunning) state.phase = TracePhase::kStopped;
      return {};
    case TraceWord::kReset:
      if (state.phase == TracePhase::kRunning) state.resets++;
      if (state.phase == TracePhase::kStopped) state.phase = TracePhase::kOff;
      return {};
    case TraceWord::kMark:
      if (state.phase != TracePhase::kOff) {
        model.mark++;
        return {};
      }
      return passes_over ? Errno{} : Errno::EINVAL;
    default:
      return Errno::EINVAL;
  }
}

void Episode::give(std::span<const Line> lines, Account* one) {
  char text[256];
  size_t length = 0;
  static constexpr const char* kWords[] = {"start", "stop", "reset", "mark"};
  bool only_marks = true;
  for (const Line& line : lines) {
    char options[80] = "";
    if (line.word == TraceWord::kStart) line.options.format_as_typed(options, sizeof(options));
    length += static_cast<size_t>(format(text + length, sizeof(text) - length, "%s%s\n",
                                         kWords[static_cast<unsigned>(line.word)], options));
    only_marks &= line.word == TraceWord::kMark;
  }

  // The predicted states after the command. `short_of_memory` and `others_short` apply if a start
  // fails for lack of memory: only the lines before it then have an effect. After any other error
  // no trace has changed.
  Model after[kAccounts], short_of_memory[kAccounts];
  Model others = others_, others_short = others;
  Errno error{};
  const auto foresee = [&](Model& model, Model& model_short) {
    bool started = false;
    for (const Line& line : lines) {
      started |= line.word == TraceWord::kStart;
      if (!started) model_short = model;
      const Errno result = apply(model, line, one == nullptr);
      if (result != Errno{} && error == Errno{}) error = result;
      if (!started) model_short = model;
    }
  };
  const auto concerned = [&](const Account& account) {
    return account.is_open() && (!one || one == &account);
  };
  for (unsigned i = 0; i < kAccounts; i++) {
    if (!concerned(accounts[i])) continue;
    after[i] = short_of_memory[i] = {accounts[i].state(), accounts[i].mark()};
    foresee(after[i], short_of_memory[i]);
  }
  if (!one) foresee(others, others_short);

  const auto marks = static_cast<uint32_t>(lines.size());
  for (unsigned i = 0; i < kAccounts; i++) {
    Account& account = accounts[i];
    if (!concerned(account)) continue;
    if (only_marks) {
      account.begin_marks(marks);
    } else {
      account.begin_change(after[i].state.generation);
    }
  }
  const Result<void> done =
      one ? trace_command(one->source(), {text, length}) : trace_command_all({text, length});
  const bool no_memory = !done && done.error() == Errno::ENOMEM && lossy_;
  const bool foreseen = no_memory || (done ? error == Errno{} : done.error() == error);
  if (!foreseen) {
    klog("proof: %s gave error %d (%s), not %d: %.*s", one ? one->source().name() : "ctl",
         done ? 0 : static_cast<int>(done.error()), done ? "" : current_task()->error_string,
         static_cast<int>(error), static_cast<int>(length), text);
    good_ = false;
  }
  for (unsigned i = 0; i < kAccounts; i++) {
    Account& account = accounts[i];
    if (!concerned(account)) continue;
    const Model is = no_memory ? short_of_memory[i]
                     : done    ? after[i]
                               : Model{account.state(), account.mark()};
    if (only_marks) {
      // A source without a trace has kept its mark, so set_mark() undoes begin_marks().
      if (is.state.phase == TracePhase::kOff)
        account.set_mark(account.mark());
      else
        account.end_marks(marks);
    } else {
      account.set_mark(is.mark);
      account.end_change(is.state);
    }
  }
  if (!one && (done || no_memory)) others_ = no_memory ? others_short : others;
  history_.add(one ? one->source().name() : "ctl", {text, length},
               done ? 0 : static_cast<int>(done.error()));
  hash_.add(word_hash(lines) + (done ? 0 : static_cast<uint64_t>(done.error())));
}

}  // namespace proof
