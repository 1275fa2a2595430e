// A look: memory for it, then with all CPUs stopped the index, marking from the roots, and heads.
//
// The index is built while nothing changes; so how large it will be is estimated before, with some
// to spare, and if that was not enough the look is made again with more.
#include "reach/look.h"

#include <new>

#include "arch/x86_64/paging.h"
#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "lib/format.h"
#include "lib/string.h"
#include "pages.h"
#include "reach/heads.h"
#include "reach/mark.h"
#include "reach/objects.h"
#include "reach/roots.h"
#include "reach/stop.h"
#include "reach/visitor.h"
#include "slab_walk.h"
#include "store/trace_memory.h"

namespace reach {
namespace {

constexpr unsigned kTries = 6;
constexpr size_t kStackEntries = 16384;

// Memory of the tracer's arena, which the index leaves out. Undefined contents.
template <typename T>
class Block {
 public:
  explicit Block(uint64_t count)
      : count_(count), memory_(static_cast<T*>(trace_copy_alloc(count * sizeof(T)))) {}
  ~Block() {
    if (memory_) trace_copy_free(memory_, count_ * sizeof(T));
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  explicit operator bool() const { return memory_ != nullptr; }
  std::span<T> span() const { return {memory_, count_}; }

 private:
  const uint64_t count_;
  T* const memory_;
};

// The kernel's own memory.
struct Here {
  std::span<const Source> sources;

  static const uint64_t* at(uint64_t address) { return reinterpret_cast<const uint64_t*>(address); }
  template <typename Marker>
  void walk(const Run& run, uint64_t address, Marker& marker) {
    MarkingVisitor<Marker> visitor(marker);
    find_walker(sources[run.source].cache)(reinterpret_cast<const void*>(address), visitor);
  }
};

class Look {
 public:
  Look(const Needs& needs, Findings& findings)
      : frames_(needs.frames),
        runs_(needs.runs),
        states_(needs.objects),
        sources_(needs.sources),
        stack_(kStackEntries),
        findings_(findings) {}

  bool has_memory() const { return frames_ && runs_ && states_ && sources_ && stack_; }
  // What was missing.
  const Needs& missing() const { return missing_; }

  // False if there was too little memory.
  bool make() {
    memset(frames_.span().data(), 0, frames_.span().size_bytes());
    with_world_stopped([](void* self) { static_cast<Look*>(self)->stopped(); }, this);
    return complete_;
  }

 private:
  void stopped() {
    const Nanoseconds begin = monotonic_now();
    Index index(kDirectMapBase, frames_.span(), runs_.span(), states_.span());
    const uint32_t sources = index_objects(index, sources_.span());
    missing_ = {frames_.span().size(), index.run_count(), index.object_count(), sources};
    complete_ = index.complete() && sources <= sources_.span().size();
    if (complete_) search(index);
    findings_.microseconds = (monotonic_now() - begin).value / 1000;
  }

  void search(const Index& index) {
    Here here{sources_.span()};
    RootMarker<Here> marker(index, here, stack_.span(), {});
    MarkingVisitor<RootMarker<Here>> visitor(marker);
    hide_all(visitor);
    visit_roots(visitor);
    marker.finish();
    const Index::Counts counts = index.count();
    findings_.live = counts.live;
    findings_.overflows = marker.overflows();
    compare(index);
    findings_.groups.emplace(findings_.memory, sources_.span());
    findings_.remembered_count = 0;
    if (counts.reached == counts.live) return;
    pass_over(index);
    Report report{*findings_.groups, findings_};
    find_heads(index, here, stack_.span(), report);
  }

  // What is nobody's in particular: slabs on their way between a cache and its source, and
  // magazines and slab structures that are not on their way.
  void pass_over(const Index& index) {
    const std::span<Source> sources = sources_.span();
    index.for_each(kLive | kReached, kLive, [&](const Object& object) {
      const Source& source = sources[object.run->source];
      const bool is_slab =
          !source.cache && page_of(reinterpret_cast<const void*>(object.address()))->slab;
      if (!source.listed || is_slab) object.state() |= kReached;
    });
  }

  // What was unreached in the look before and is reached now.
  void compare(const Index& index) {
    findings_.returned = 0;
    for (uint32_t i = 0; i < findings_.remembered_count; i++) {
      const Object object = index.find(findings_.remembered[i]);
      if (!object || (object.state() & (kLive | kReached)) != (kLive | kReached)) continue;
      if (findings_.returned++ >= Findings::kReturnedShown) continue;
      Findings::Returned& returned = findings_.returned_shown[findings_.returned - 1];
      returned.address = object.address();
      const Source& source = sources_.span()[object.run->source];
      format(returned.name, sizeof(returned.name), "%s",
             source.cache ? kmem_cache_name(source.cache) : arena_name(source.arena));
    }
  }

  struct Report {
    Groups& groups;
    Findings& findings;
    void head(const Object& object) {
      if (findings.remembered_count < Findings::kRemembered)
        findings.remembered[findings.remembered_count++] = object.address();
      groups.head(object);
      if (findings.observer) findings.observer(findings.observer_argument, object, true);
    }
    void keeps(const Object& object) {
      groups.keeps(object);
      if (findings.observer) findings.observer(findings.observer_argument, object, false);
    }
  };

  const Block<uint32_t> frames_;
  const Block<Run> runs_;
  const Block<uint8_t> states_;
  const Block<Source> sources_;
  const Block<Entry> stack_;
  Findings& findings_;
  Needs missing_{};
  bool complete_ = false;
};

uint64_t with_some_to_spare(uint64_t needed, uint64_t had) {
  return needed > had ? needed + needed / 4 : had;
}

}  // namespace

Result<void> look(Findings& findings) {
  Needs needs = estimate();
  for (unsigned i = 0; i < kTries; i++) {
    Look look(needs, findings);
    if (!look.has_memory()) {
      return fail(Errno::ENOMEM, "no memory for an index of %lu page frames and %lu objects",
                  needs.frames, needs.objects);
    }
    if (look.make()) return {};
    const Needs& missing = look.missing();
    needs.runs = with_some_to_spare(missing.runs, needs.runs);
    needs.objects = with_some_to_spare(missing.objects, needs.objects);
    needs.sources = with_some_to_spare(missing.sources, needs.sources);
  }
  return fail(Errno::ENOMEM, "there are more objects each time: %lu and more", needs.objects);
}

}  // namespace reach
