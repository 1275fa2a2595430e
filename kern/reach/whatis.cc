// Describes an address, what points to it, and the shortest path to it from a root.
//
// The answer is made at one moment, with all CPUs stopped, in memory that was allocated before. It
// begins with a description (describe). For an address in the direct map, a survey is made. If the
// address lies in an object, live or free, the answer then lists the words that point to the object
// (holders). If the object is live, the answer ends with the shortest path to it (paths).
//
// The stack of a task that asks about an address always contains this address. So the stacks of
// asking tasks are not roots here. Stale words on other stacks are listed like all other words: the
// answer shows that they lie on a stack.
#include "reach/whatis.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>

#include "core/cpu.h"
#include "core/errstr.h"
#include "core/sleep.h"
#include "kmalloc.h"
#include "lib/list.h"
#include "lib/string.h"
#include "pages.h"
#include "reach/block_impl.h"
#include "reach/describe_impl.h"
#include "reach/holders.h"
#include "reach/paths.h"
#include "reach/stop_impl.h"
#include "reach/survey_impl.h"

class WhatisAnswer {
 public:
  size_t size = 0;
  char text[];
};

namespace {

using namespace reach;

constexpr size_t kTextSize = size_t{64} << 10;  // bytes; more than the longest answer
constexpr unsigned kHoldersShown = 16;
constexpr size_t kStepsShown = 16;  // steps shown at each end of a long path

constinit Mutex asking{LockRank::kReach};

// A task that asks a question, or is about to ask one.
struct Asker {
  const TaskHead* task = current_task_head();
  ListNode link;
};
constinit Spinlock askers_lock{LockRank::kDevice};
constinit List<Asker, &Asker::link> askers;

// While this object exists, the current task is in the list of asking tasks.
class Asks {
 public:
  Asks() {
    const Guard guard(askers_lock);
    askers.push_back(asker_);
  }
  ~Asks() {
    const Guard guard(askers_lock);
    asker_.link.unlink();
  }
  Asks(const Asks&) = delete;
  Asks& operator=(const Asks&) = delete;

 private:
  Asker asker_;
};

// True if the task is in `askers`. All CPUs are stopped, so the list does not change.
bool does_ask(const TaskHead& task) {
  for (const Asker& asker : askers) {
    if (asker.task == &task) return true;
  }
  return false;
}

// Forwards roots to a visitor, except for the stacks of asking tasks.
class OthersRoots final : public ReachVisitor {
 public:
  explicit OthersRoots(ReachVisitor& to) : to_(to) {}
  void object(const void* address) override { to_.object(address); }
  void words(const void* from, const void* end) override { to_.words(from, end); }
  void stack(const TaskHead& task, uint64_t from, uint64_t end) override {
    if (!does_ask(task)) to_.stack(task, from, end);
  }
  void page(PhysAddr page) override { to_.page(page); }
  bool table(PhysAddr page) override { return to_.table(page); }
  void hide(const void* address) override { to_.hide(address); }

 private:
  ReachVisitor& to_;
};

// Shows all roots to `search`, which is a Paths or a Holders, and calls search.finish().
template <typename Search>
void search_from_roots(const Index& index, Search& search) {
  index.forget_walks();
  ReachingVisitor<Search> visitor(search);
  OthersRoots roots(visitor);
  visit_roots(roots);
  search.finish();
}

class Question final : public SurveyWork {
 public:
  Question(uint64_t address, std::span<char> text)
      : address_(address), to_(text.data(), text.size()) {}

  Result<void> ask() {
    if (page_of(reinterpret_cast<const void*>(address_))) return survey(*this);
    with_world_stopped(
        [](void* self) {
          auto& question = *static_cast<Question*>(self);
          describe(question.to_, question.address_);
        },
        this);
    return {};
  }
  size_t length() const { return to_.length(); }

  bool prepare(const Needs& needs) override {
    links_.emplace(2 * needs.objects);
    return static_cast<bool>(*links_);
  }

  void look(const Survey& survey) override {
    describe(to_, address_);
    const Object object = survey.index.find(address_);
    if (!object) return;
    print_holders(survey, object);
    if (object.state() & kLive) print_path(survey, object);
  }

 private:
  void print_object(const Survey& survey, const Object& object) {
    const Source& source = survey.sources[object.run->source];
    to_.print("%s 0x%lx", source.cache ? kmem_cache_name(source.cache) : arena_name(source.arena),
              object.address());
  }

  void print_link(const Survey& survey, Link link) {
    switch (link.kind()) {
      case Link::kNone:
        return;
      case Link::kRoot:
        return describe_root(to_, link.address());
      case Link::kOwner:
        return to_.print("a root that its owner reports");
      case Link::kWord: {
        const Object object = survey.index.find(link.address());
        print_object(survey, object);
        return to_.print(" +0x%lx", link.address() - object.address());
      }
      case Link::kWalker:
        print_object(survey, survey.index.find(link.address()));
        return to_.print(", by its walker");
    }
  }

  // Collects holders first and prints them later: a provider may hold a lock while it shows roots,
  // and describing a root may take the same lock.
  void print_holders(const Survey& survey, const Object& object) {
    std::array<Link, kHoldersShown> shown;
    uint64_t found = 0;
    const auto note = [&](Link link) {
      if (found < shown.size()) shown[found] = link;
      found++;
    };
    Holders<Here, decltype(note)> holders(survey.index, survey.space, object, note);
    search_from_roots(survey.index, holders);
    for (uint64_t i = 0; i < std::min<uint64_t>(found, shown.size()); i++) {
      to_.print("  pointed to by ");
      print_link(survey, shown[i]);
      to_.print("\n");
    }
    if (found > shown.size()) to_.print("  … %lu more\n", found - shown.size());
  }

  void print_path(const Survey& survey, const Object& object) {
    Paths<Here> paths(survey.index, survey.space, links_->span());
    search_from_roots(survey.index, paths);
    const std::span<const Link> path = paths.path(object);
    if (path.empty()) return to_.print("  no path from a root leads to it\n");
    to_.print("  path: ");
    for (size_t i = 0; i < path.size(); i++) {
      if (i == kStepsShown && path.size() > 2 * kStepsShown) {
        const size_t left_out = path.size() - 2 * kStepsShown;
        to_.print("… %lu more → ", left_out);
        i += left_out;
      }
      print_link(survey, path[i]);
      to_.print(" → ");
    }
    print_object(survey, object);
    to_.print("\n");
  }

  const uint64_t address_;
  Writer to_;
  std::optional<Block<Link>> links_;
};

}  // namespace

Result<WhatisAnswer*> whatis_answer_make(uint64_t address) {
  const Block<char> text(kTextSize);
  if (!text) return fail(Errno::ENOMEM, "no memory for the answer");
  Question question(address, text.span());
  {
    const Asks asks;
    const MutexGuard guard(asking);
    TRY(question.ask());
  }
  const size_t size = std::min(question.length(), kTextSize - 1);
  void* const memory = kmalloc(sizeof(WhatisAnswer) + size, KM_SLEEP);
  if (!memory) return fail(Errno::ENOMEM, "no memory for the answer");
  auto* const answer = new (memory) WhatisAnswer;
  answer->size = size;
  memcpy(answer->text, text.span().data(), size);
  return answer;
}

std::string_view whatis_answer_text(const WhatisAnswer* answer) {
  return {answer->text, answer->size};
}

void whatis_answer_free(WhatisAnswer* answer) {
  kfree(answer);
}
