// Finds where the traced references lie. A reference is two neighbouring words: the address of its
// object and the number of its record (core/ref.h). So each such pair in scanned memory counts as a
// reference, even if it was moved to another holder. A reference whose pair is found nowhere is in
// registers, or was lost. The record numbers are collected from the trace tables while all CPUs are
// stopped, before memory is searched. A number alone proves nothing: the word before it must be the
// address of the object that the record names. Objects that have traced references get a state bit
// in the index, so that most words are rejected early.
//
// The compiler may hold a local reference in two registers, and store the two registers anywhere on
// the stack. So on a stack the two words are also searched for separately. Two words that match
// separately may do so by chance, so they are reported as kStackApart.
//
// A stale pair may remain where a reference has been: on a stack, or in an object that has released
// the reference (HeldRef). If a reference is found more than once, a reachable object or static
// data is preferred to an unreachable object, and an unreachable object to a stack.
#include "reach/references_impl.h"

#include <algorithm>

#include "core/errstr.h"
#include "core/task_head.h"
#include "pages.h"
#include "reach/ranges.h"
#include "reach/reach.h"
#include "reach/survey_impl.h"
#include "trace/control/control.h"
#include "trace/record/table.h"

namespace reach {
namespace {

using Where = RefPlaces::Where;

constexpr unsigned kTries = 6;

template <typename Visit>
void for_each_class(const RefClass* of, Visit visit) {
  for (unsigned i = 0; RefClass* const one = ref_class_at(i); i++) {
    if (!of || one == of) visit(*one);
  }
}

// Counts live references; this is an upper bound of the references that have a record.
uint64_t live(const RefClass* of) {
  uint64_t sum = 0;
  for_each_class(of, [&](RefClass& one) { sum += TraceSource(&one).live(); });
  return sum;
}

class Search final : public SurveyWork {
 public:
  Search(RefPlaces& places, const RefClass* of) : places_(places), of_(of) {}

  void look(const Survey& survey) override {
    collect();
    if (!places_.complete()) return;
    for (const RefPlaces::Entry& entry : places_.all()) {
      if (const Object object = survey.index.find(entry.object)) object.state() |= kSeen;
    }
    for_each_range(
        survey.index, survey.space, [](const auto& root) { for_each_root(root); },
        [&](const RangeOwner& place, uint64_t address, std::span<const uint64_t> words) {
          look_through(survey, place, address, words);
        });
  }

 private:
  // Collects the records. The trace tables are consistent: tracing hooks run with interrupts off,
  // so no CPU was stopped within a hook.
  void collect() {
    for_each_class(of_, [&](RefClass& one) {
      const RefKind kind = ref_kind_of(one);
      TraceTable* const table = trace_table_of(&one);
      if (!table) return;
      table->visit_references([&](uint64_t number, uint64_t object, StackId stack) {
        places_.add(number, object, stack, kind);
      });
    });
    places_.sort_by_number();
  }

  void look_through(const Survey& survey, const RangeOwner& place, uint64_t address,
                    std::span<const uint64_t> words) {
    for (size_t i = 0; i + 1 < words.size(); i++) {
      if (!may_refer(survey, words[i])) continue;
      RefPlaces::Entry* const entry = places_.find(words[i + 1]);
      if (!entry || entry->object != words[i]) continue;
      note(survey, *entry, place, where_of(survey, place), address + i * sizeof(uint64_t));
    }
    if (place.kind != RangeOwner::Kind::kStack) return;
    for (size_t i = 0; i < words.size(); i++) {
      RefPlaces::Entry* const entry = words[i] != 0 ? places_.find(words[i]) : nullptr;
      if (!entry || entry->is_found() || std::ranges::find(words, entry->object) == words.end())
        continue;
      note(survey, *entry, place, Where::kStackApart, address + i * sizeof(uint64_t));
    }
  }

  static bool may_refer(const Survey& survey, uint64_t word) {
    if (word < survey.index.base()) return false;
    const Object object = survey.index.find(word);
    return object && (object.state() & kSeen);
  }

  void note(const Survey& survey, RefPlaces::Entry& entry, const RangeOwner& place, Where where,
            uint64_t address) {
    if (where > entry.place.where) entry.place = place_of(survey, place, where, address);
  }

  static Where where_of(const Survey& survey, const RangeOwner& place) {
    switch (place.kind) {
      case RangeOwner::Kind::kStatic:
        return Where::kStatic;
      case RangeOwner::Kind::kStack:
        return Where::kStack;
      case RangeOwner::Kind::kObject:
        break;
    }
    const bool shown = survey.sources[place.object.run->source].listed;
    return shown && !(place.object.state() & kReached) ? Where::kUnreachedObject : Where::kObject;
  }

  RefPlaces::Location place_of(const Survey& survey, const RangeOwner& place, Where where,
                               uint64_t address) {
    if (where == Where::kStatic) return {where, RefPlaces::kNoName, 0, address, 0};
    if (place.kind == RangeOwner::Kind::kStack) {
      const auto* const task = reinterpret_cast<const TaskHead*>(place.task);
      return {where, places_.add_name(place.task, task->name), task->pid, address, 0};
    }
    const Source& source = survey.sources[place.object.run->source];
    const char* const name =
        source.cache ? kmem_cache_name(source.cache) : arena_name(source.arena);
    return {where, places_.add_name(reinterpret_cast<uint64_t>(name), name), 0, address,
            place.object.address()};
  }

  RefPlaces& places_;
  const RefClass* const of_;
};

}  // namespace

// Makes room for some more references than exist now: further references may be taken before CPUs
// stop.
Result<void> find_references(RefPlaces& places, const RefClass* of) {
  constexpr size_t kSpare = 256;
  size_t room = live(of) + kSpare;
  for (unsigned i = 0; i < kTries; i++) {
    if (!places.begin(room)) return fail(Errno::ENOMEM, "no memory for %lu references", room);
    Search search(places, of);
    TRY(survey(search));
    if (places.complete()) {
      places.sort_by_stack();
      return {};
    }
    room = places.wanted() + places.wanted() / 4;
  }
  return fail(Errno::ENOMEM, "the number of references keeps growing: at least %lu", room);
}

}  // namespace reach

void reach_init() {
  trace_register_ref_finder(reach::find_references);
}
