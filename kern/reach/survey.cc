// A survey allocates its memory, then stops all CPUs, builds the index, and searches from the
// roots.
//
// The size of the index is not known before CPUs are stopped. So it is estimated, with a margin. If
// the estimate was too small, the survey is repeated with more memory.
#include "reach/survey_impl.h"

#include "arch/x86_64/paging.h"
#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "intern/trace_memory.h"
#include "lib/string.h"
#include "reach/block_impl.h"
#include "reach/roots_impl.h"
#include "reach/stop_impl.h"
#include "reach/visitor_impl.h"

namespace reach {
namespace {

constexpr unsigned kTries = 6;
constexpr size_t kStackEntries = 16384;

class Memory {
 public:
  explicit Memory(const Needs& needs)
      : frames_(needs.frames),
        runs_(needs.runs),
        states_(needs.objects),
        sources_(needs.sources),
        stack_(kStackEntries) {}

  explicit operator bool() const { return frames_ && runs_ && states_ && sources_ && stack_; }
  // The sizes that the last try needed.
  const Needs& missing() const { return missing_; }

  // Makes the survey and calls work.look(). If the memory was too small, returns false and does not
  // call work.look().
  bool survey(SurveyWork& work) {
    memset(frames_.span().data(), 0, frames_.span().size_bytes());
    work_ = &work;
    with_world_stopped([](void* self) { static_cast<Memory*>(self)->stopped(); }, this);
    return complete_;
  }

 private:
  void stopped() {
    const Nanoseconds begin = monotonic_now();
    Index index(kDirectMapBase, frames_.span(), runs_.span(), states_.span());
    const uint32_t sources = index_objects(index, sources_.span());
    missing_ = {frames_.span().size(), index.run_count(), index.object_count(), sources};
    complete_ = index.complete() && sources <= sources_.span().size();
    if (!complete_) return;
    Here here{sources_.span()};
    ReachedFromRoots<Here> reached(index, here, stack_.span(), {});
    ReachingVisitor<ReachedFromRoots<Here>> visitor(reached);
    hide_all(visitor);
    visit_roots(visitor);
    reached.finish();
    work_->look({index, here, sources_.span(), stack_.span(), reached.overflows(), begin});
  }

  const Block<uint32_t> frames_;
  const Block<Run> runs_;
  const Block<uint8_t> states_;
  const Block<Source> sources_;
  const Block<Entry> stack_;
  SurveyWork* work_ = nullptr;
  Needs missing_{};
  bool complete_ = false;
};

uint64_t with_some_to_spare(uint64_t needed, uint64_t had) {
  return needed > had ? needed + needed / 4 : had;
}

}  // namespace

Result<void> survey(SurveyWork& work) {
  Needs needs = estimate();
  for (unsigned i = 0; i < kTries; i++) {
    Memory memory(needs);
    if (!memory || !work.prepare(needs)) {
      return fail(Errno::ENOMEM, "no memory for an index of %lu page frames and %lu objects",
                  needs.frames, needs.objects);
    }
    if (memory.survey(work)) return {};
    const Needs& missing = memory.missing();
    needs.runs = with_some_to_spare(missing.runs, needs.runs);
    needs.objects = with_some_to_spare(missing.objects, needs.objects);
    needs.sources = with_some_to_spare(missing.sources, needs.sources);
  }
  return fail(Errno::ENOMEM, "the number of objects keeps growing: at least %lu", needs.objects);
}

}  // namespace reach
