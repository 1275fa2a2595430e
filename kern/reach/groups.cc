#include "reach/groups_impl.h"

#include "intern/shared_tables.h"
#include "lib/format.h"
#include "trace/control/control.h"

namespace reach {
namespace {

TraceSource source_of(const Source& source) {
  return source.cache ? TraceSource(source.cache) : TraceSource(source.arena);
}

// The stack and the not-leak mark in an object's trace record.
struct Recorded {
  StackId stack = StackId::kNone;
  bool stays = false;  // kmem_not_leak() was called for the object
};
Recorded recorded(TraceSource source, uint64_t address) {
  if (!(source.flags() & KMC_EVER_TRACED)) return {};
  TraceTable* const table = trace_table_of(source);
  TraceRecord record;
  if (!table || !table->find(address, record)) return {};
  return {record.stack, record.not_leak()};
}

}  // namespace

Groups::Groups(Memory& memory, std::span<const Source> sources)
    : memory_(memory), sources_(sources) {
  memory_.places.fill(0);
}

void Groups::head(const Object& object) {
  heads_++;
  unreached_.add(object.size());
  shown_ = nullptr;
  current_ = group_of(object, 0);
  if (!current_) {
    not_shown_.add(object.size());
    return;
  }
  if (current_->own.objects < Group::kShown) {
    shown_ = &current_->shown[current_->own.objects];
    *shown_ = {object.address(), object.size(), {}};
  }
  current_->own.add(object.size());
}

void Groups::keeps(const Object& object) {
  unreached_.add(object.size());
  Group* const group = current_ ? group_of(object, number_of(*current_)) : nullptr;
  if (current_) current_->keeps.add(object.size());
  if (shown_) shown_->keeps.add(object.size());
  if (group) {
    group->own.add(object.size());
  } else {
    not_shown_.add(object.size());
  }
}

// Finds the group of an object, or creates the group. `holder`: number of the group of heads that
// keeps the object; 0: the object is a head. Returns nullptr if there is no room for a new group.
Group* Groups::group_of(const Object& object, uint32_t holder) {
  const TraceSource source = source_of(sources_[object.run->source]);
  const auto [stack, stays] = holder == 0 ? recorded(source, object.address()) : Recorded{};
  uint64_t key = reinterpret_cast<uint64_t>(source.word()) ^ uint64_t { ::number_of(stack) } << 32 ^
                 holder << 1 ^ stays;
  key *= 0x9e3779b97f4a7c15;
  for (uint64_t place = key >> 48;; place++) {
    uint32_t& number = memory_.places[place % memory_.places.size()];
    if (number == 0) {
      if (count_ == kMost) return nullptr;
      Group& group = memory_.groups[count_++];
      group = {};
      group.holder = holder;
      group.source = source;
      group.stack = stack;
      group.stays = stays;
      format(group.name, sizeof(group.name), "%s", source.name());
      copy_stack(group);
      number = count_;
      return &group;
    }
    Group& group = memory_.groups[number - 1];
    if (group.source == source && group.stack == stack && group.holder == holder &&
        group.stays == stays)
      return &group;
  }
}

void Groups::copy_stack(Group& group) {
  const StackTable::View stack = trace_stacks.view(group.stack);
  if (!stack || frames_ + stack.size() > kMostFrames) return;
  group.first_frame = frames_;
  group.frames = static_cast<uint32_t>(stack.size());
  for (size_t i = 0; i < stack.size(); i++)
    memory_.frames[frames_++] = static_cast<uint32_t>(stack[i]);
}

}  // namespace reach
