#include "trace/dump/text_impl.h"

#include <algorithm>
#include <bit>

#include "core/symbols.h"
#include "lib/digits.h"
#include "lib/format.h"

namespace {

// True if the lines of two objects are equal except for the address.
bool has_same_tail(const TraceRecord& a, const TraceRecord& b) {
  return a.low_milliseconds() == b.low_milliseconds() && a.context == b.context &&
         a.mark() == b.mark() && a.size() == b.size() && a.cpu() == b.cpu() &&
         a.not_leak() == b.not_leak() && a.high_milliseconds() == b.high_milliseconds();
}

}  // namespace

int TraceHeader::format_state(char* buffer, size_t size) const {
  return format(buffer, size, "kmemtrace %s state %s objsize %lu depth %u mark %u", name,
                trace_phase_name(state.phase), object_size, state.options.depth, state.mark);
}

int TraceHeader::format_counters(char* buffer, size_t size) const {
  size_t length = 0;
  const auto put = [&](const char* name, uint64_t value) {
    const size_t at = std::min(length, size);
    length += static_cast<size_t>(
        format(buffer + at, size - at, "%s%s %lu", length > 0 ? " " : "", name, value));
  };
  for (const TraceCounter& counter : kTraceCounters) {
    if (counter.value == &TraceCounters::stacks_lost && stacks) put("stacks", *stacks);
    put(counter.name, counters.*counter.value);
  }
  if (unattributed > 0) put("unattributed", unattributed);
  return static_cast<int>(length);
}

TraceText::TraceText(std::span<std::byte> memory, const StackTable& stacks,
                     const ContextTable& contexts)
    : stacks_(stacks), contexts_(contexts) {
  groups_.use(memory.first(kGroupRoom));
  details_.use(memory.subspan(kGroupRoom, kRecordRoom),
               memory.subspan(kGroupRoom + kRecordRoom, kCellRoom));
  frees_.use(memory.subspan(kGroupRoom + kRecordRoom + kCellRoom, kFreeRoom));
}

void TraceText::make(Milliseconds now) {
  now_ = now;
  groups_.add_up(snapshot_, slice_, header.state.options.sample);
  header.counters = snapshot_.counters();
  header.counters.set_untracked(header.objects);
  header.counters.set_estimate(groups_.estimate());
  header.stacks = groups_.stacks();
  header.unattributed = groups_.rest().objects;
  collect(0);
}

void TraceText::add_up_frees() {
  const FreeCounts* const counts = snapshot_.table().free_counts();
  if (!counts) return;
  has_frees_ = true;
  frees_lost_ = counts->lost();
  counts->visit([this](StackId allocated_by, StackId freed_by, uint64_t frees) {
    if (groups_.find(allocated_by) == TraceGroups::kNone) return;
    const uint32_t number = frees_.find_or_add({allocated_by, freed_by});
    (number == frees_.kNone ? frees_lost_ : frees_[number].frees) += frees;
  });
  frees_.sort([](const FreesBy& a, const FreesBy& b) {
    if (a.allocated_by != b.allocated_by) return a.allocated_by < b.allocated_by;
    return a.frees != b.frees ? a.frees > b.frees : a.freed_by < b.freed_by;
  });
}

std::span<const TraceText::FreesBy> TraceText::frees() const {
  const std::span<const FreesBy> all = frees_.items();
  return {std::ranges::lower_bound(all, group().stack, {}, &FreesBy::allocated_by),
          std::ranges::upper_bound(all, group().stack, {}, &FreesBy::allocated_by)};
}

void TraceText::collect(uint32_t group) {
  first_collected_ = group;
  collected_ = details_.collect(snapshot_, slice_, groups_, contexts_, group);
}

size_t TraceText::read(char* buffer, size_t size, uint64_t offset) {
  if (offset < position_) {
    position_ = 0;
    section_ = Section::kHeader;
    group_ = item_ = 0;
    length_ = 0;
  }
  size_t done = 0;
  while (done < size) {
    const uint64_t wanted = offset + done - position_;
    if (wanted < length_) {
      const size_t part = std::min<size_t>(size - done, length_ - wanted);
      memcpy(buffer + done, piece_ + wanted, part);
      done += part;
      continue;
    }
    if (section_ == Section::kEnd) break;
    position_ += length_;
    length_ = 0;
    next_piece();
  }
  return done;
}

void TraceText::next_piece() {
  switch (section_) {
    case Section::kHeader:
      return print_header();
    case Section::kGroup:
      return print_group();
    case Section::kFrames:
      return print_frame();
    case Section::kAges:
      return print_ages();
    case Section::kMarks:
      return print_marks();
    case Section::kContexts:
      return print_context();
    case Section::kUserStacks:
      return print_user_stack();
    case Section::kUserFrames:
      return print_user_frame();
    case Section::kFrees:
      return print_frees();
    case Section::kFreeFrames:
      return print_free_frame();
    case Section::kPlaces:
      return print_place();
    case Section::kObjects:
      return print_object();
    case Section::kRest:
      return print_rest();
    case Section::kEnd:
      return;
  }
}

// Appends formatted text to the piece.
void TraceText::print(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  const int length = vformat(piece_ + length_, kPiece - length_, pattern, arguments);
  va_end(arguments);
  length_ = std::min(length_ + static_cast<size_t>(length), kPiece - 1);
}

// Each call makes one of the two header lines. The second line is followed by a message if there
// was no memory to search for the locations of references.
void TraceText::print_header() {
  if (item_++ == 0) {
    char filters[TraceOptions::kMaxFilters];
    header.state.options.format_filters(filters, sizeof(filters));
    length_ = std::min<size_t>(header.format_state(piece_, kPiece), kPiece - 1);
    print("%s", filters);
  } else {
    length_ = std::min<size_t>(header.format_counters(piece_, kPiece), kPiece - 1);
    if (places_missing)
      print("\ntheir locations are not known: there was no memory for the search");
    if (frees_lost_ > 0) print("\n%lu frees are not counted: there was no memory", frees_lost_);
    section_ = groups_.size() > 0 ? Section::kGroup : Section::kRest;
  }
  print("\n");
}

void TraceText::print_amount(uint64_t bytes, uint64_t objects) {
  if (header.of_references) {
    print("%lu references", objects);
  } else {
    print("%lu bytes in %lu allocations", bytes, objects);
  }
}

// Makes the first lines of a group. Collects the group's details first if necessary.
void TraceText::print_group() {
  if (group_ - first_collected_ >= collected_) collect(group_);
  print("\n");
  print_amount(group().bytes, group().objects);
  print(" from stack");
  if (header.state.options.sample != 0) {
    print(", estimated %lu bytes in %lu allocations", group().estimate.whole_bytes(),
          group().estimate.whole_objects());
  }
  print("\n");
  if (group().stack == StackId::kNone) print("\tthe stack was not recorded\n");
  section_ = group().stack == StackId::kNone ? Section::kAges : Section::kFrames;
  item_ = 0;
}

// Makes as many lines of frames as fit in the piece.
void TraceText::print_frame() {
  const StackTable::View stack = stacks_.view(group().stack);
  while (item_ < stack.size() && length_ + kFrameText + 2 < kPiece) print_symbol(stack[item_++]);
  if (item_ == stack.size()) section_ = Section::kAges;
}

void TraceText::print_symbol(uint64_t frame) {
  const size_t first = frame * 0x9e3779b97f4a7c15 >> (64 - std::countr_zero(kFrameLines));
  size_t probe = 0;
  for (; probe < kFrameProbes; probe++) {
    const FrameLine& line = frame_lines_[(first + probe) % kFrameLines];
    if (line.length == 0) break;
    if (line.frame != frame) continue;
    put_text(piece_ + length_, {line.text, line.length});
    length_ += line.length;
    return;
  }
  char symbol[kFrameText];
  symbol_format(symbol, sizeof(symbol), frame);
  const size_t before = length_;
  print("\t%s\n", symbol);
  const size_t length = length_ - before;
  if (length > FrameLine::kLongest) return;
  FrameLine& line = frame_lines_[(first + probe % kFrameProbes) % kFrameLines];
  line.frame = frame;
  line.length = static_cast<uint8_t>(length);
  memcpy(line.text, piece_ + before, length);
}

void TraceText::print_ages() {
  oldest_ = details_.oldest(index());
  tail_of_ = nullptr;
  print("\tage ms min %lu avg %lu max %lu, marks ", (now_ - group().newest).value,
        (group().objects * now_.value - group().time_sum) / group().objects,
        (now_ - oldest_[0].time()).value);
  section_ = Section::kMarks;
  item_ = printed_ = 0;
}

// Prints one range of marks at a time.
void TraceText::print_marks() {
  const uint32_t first = details_.next_mark(index(), item_);
  if (first != TraceDetails::kNoMark) {
    uint32_t last = first;
    while (details_.next_mark(index(), last + 1) == last + 1) last++;
    print(printed_++ > 0 ? ",%u" : "%u", first);
    if (last > first) print("-%u", last);
    item_ = last + 1;
    return;
  }
  if (const uint64_t count = details_.without_mark(index()))
    print("%s (%lu not known)", printed_ > 0 ? "" : "none", count);
  print(", contexts ");
  section_ = Section::kContexts;
  item_ = printed_ = 0;
}

void TraceText::print_context() {
  const uint32_t count = details_.context_count(index());
  if (item_ < count && item_ < TraceDetails::kContextsShown) {
    char text[kContextText];
    ContextTable::format(text, sizeof(text), contexts_.get(details_.context(index(), item_)));
    print(item_++ > 0 ? ", %s" : "%s", text);
    return;
  }
  if (count > item_) print(", … %u more", count - item_);
  if (const uint64_t unknown = details_.without_origin(index()))
    print("%s of %lu %s", count > 0 ? ", … and others" : "not known", unknown,
          header.of_references ? "references" : "allocations");
  print("\n");
  collect_user_stacks();
  section_ = Section::kUserStacks;
  item_ = 0;
}

// Collects the user stacks of the group, those with most bytes first. The same user stack in two
// programs counts as two.
void TraceText::collect_user_stacks() {
  user_stacks_ = 0;
  const std::span<const TraceDetails::Cell> origins = details_.user_origins(index());
  for (size_t i = 0; i < origins.size();) {
    const TraceDetails::Cell& first = origins[i];
    UserStackSum sum = {.bytes = 0,
                        .count = 0,
                        .user_stack = first.user_stack(),
                        .context = first.context(),
                        .processes = 0};
    for (; i < origins.size() && origins[i].user_stack() == first.user_stack() &&
           TraceDetails::compare_programs(contexts_, origins[i].context(), first.context()) == 0;
         i++) {
      sum.bytes += origins[i].bytes;
      sum.count += origins[i].objects;
      sum.processes++;
    }
    add_user_stack(sum);
  }
}

// Inserts a sum in order of bytes. If there is no room for a sum, only counts it.
void TraceText::add_user_stack(const UserStackSum& sum) {
  const auto before = [](const UserStackSum& a, const UserStackSum& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (a.count != b.count) return a.count > b.count;
    if (a.context != b.context) return a.context < b.context;
    return a.user_stack < b.user_stack;
  };
  uint32_t place = std::min(user_stacks_++, kUserStacksShown);
  for (; place > 0 && before(sum, user_stack_sums_[place - 1]); place--) {
    if (place < kUserStacksShown) user_stack_sums_[place] = user_stack_sums_[place - 1];
  }
  if (place < kUserStacksShown) user_stack_sums_[place] = sum;
}

void TraceText::print_user_stack() {
  if (item_ < user_stacks_ && item_ < kUserStacksShown) {
    const UserStackSum& sum = user_stack_sums_[item_];
    const ContextTable::Context& context = *contexts_.get(sum.context);
    const ContextTable::Program& program = *context.program;
    char owner[kContextText];
    ContextTable::format(owner, sizeof(owner), &context);
    print("\tuser stack of %s", owner);
    if (sum.processes > 1) print(" and %u more", sum.processes - 1);
    print(", ");
    print_amount(sum.bytes, sum.count);
    if (program.build_id_size > 0) print(", build id ");
    for (uint8_t i = 0; i < program.build_id_size; i++) print("%02x", program.build_id[i]);
    print("\n");
    section_ = Section::kUserFrames;
    inner_frame_ = 0;
    return;
  }
  if (item_ < user_stacks_) print("\t… %u more user stacks\n", user_stacks_ - item_);
  if (const uint64_t count = details_.without_origin(index()))
    print("\t… %lu %s more, whose user stacks are not known\n", count,
          header.of_references ? "references" : "allocations");
  section_ = has_frees_ ? Section::kFrees : places ? Section::kPlaces : Section::kObjects;
  item_ = 0;
}

// Each call prints the number of frees of a stack; its frames follow.
void TraceText::print_frees() {
  const std::span<const FreesBy> frees = this->frees();
  const char* const freed = header.of_references ? "put" : "freed";
  if (item_ < std::min(frees.size(), kFreesShown)) {
    print("\t%s %lu by stack\n", freed, frees[item_].frees);
    section_ = Section::kFreeFrames;
    inner_frame_ = 0;
    return;
  }
  if (frees.empty()) print("\t%s none\n", freed);
  if (item_ < frees.size()) {
    uint64_t rest = 0;
    for (const FreesBy& item : frees.subspan(item_)) rest += item.frees;
    print("\t… %s %lu by %lu more stacks\n", freed, rest, frees.size() - item_);
  }
  section_ = places ? Section::kPlaces : Section::kObjects;
  item_ = 0;
}

void TraceText::print_free_frame() {
  const StackTable::View stack = stacks_.view(frees()[item_].freed_by);
  if (inner_frame_ < stack.size()) {
    print("\t");
    print_symbol(stack[inner_frame_++]);
    return;
  }
  section_ = Section::kFrees;
  item_++;
}

void TraceText::print_user_frame() {
  const UserStackSum& sum = user_stack_sums_[item_];
  const StackTable::View stack = stacks_.view(sum.user_stack);
  if (inner_frame_ < stack.size()) {
    print("\t\t0x%lx [%s]\n", stack[inner_frame_++], contexts_.get(sum.context)->program->path);
    return;
  }
  section_ = Section::kUserStacks;
  item_++;
}

// Each call prints the location of one reference of the group, up to kPlacesShown. The last call
// prints the number of the other references that were found, and the number of references that were
// not found.
void TraceText::print_place() {
  const std::span<const RefPlaces::Entry> taken = places->of_stack(group().stack);
  if (item_ < taken.size() && item_ < kPlacesShown && taken[item_].is_found()) {
    char text[RefPlaces::kText];
    places->format(text, sizeof(text), taken[item_].place);
    print("\treference to 0x%lx %s\n", taken[item_++].object, text);
    return;
  }
  const auto found = static_cast<size_t>(
      std::ranges::partition_point(taken, &RefPlaces::Entry::is_found) - taken.begin());
  if (found > item_) print("\t… %lu references more\n", found - item_);
  if (taken.size() > found) print("\t%lu references nowhere found\n", taken.size() - found);
  section_ = Section::kObjects;
  item_ = 0;
}

// Writes the line of an object. These lines are the greatest part of a long dump, and consecutive
// lines often differ only in the address. So the text after the address is cached.
char* TraceText::put_object(char* to, const TraceRecord& at) {
  if (!tail_of_ || !has_same_tail(at, *tail_of_)) {
    tail_length_ = static_cast<size_t>(put_tail(tail_, at) - tail_);
    tail_of_ = &at;
  }
  return put_text(put_hex(put_literal(to, "\t0x"), at.object()), {tail_, tail_length_});
}

char* TraceText::put_tail(char* to, const TraceRecord& at) {
  if (!header.of_references) to = put_decimal(put_literal(to, " size "), at.size());
  to = put_decimal(put_literal(to, " age "), (now_ - at.time()).value);
  to = put_decimal(put_literal(to, " mark "), at.mark());
  to = put_decimal(put_literal(to, " cpu "), number_of(at.cpu()));
  if (at.not_leak()) to = put_literal(to, " not_leak");
  *to++ = ' ';
  to = put_text(to, context_text(at.context));
  *to++ = '\n';
  return to;
}

std::string_view TraceText::context_text(ContextId context) {
  if (context_shown_ != context) {
    const int length =
        ContextTable::format(context_text_, sizeof(context_text_), contexts_.get(context));
    context_length_ = std::min(static_cast<size_t>(length), sizeof(context_text_) - 1);
    context_shown_ = context;
  }
  return {context_text_, context_length_};
}

// Makes as many lines of objects as fit in the piece.
void TraceText::print_object() {
  const auto shown = static_cast<uint32_t>(oldest_.size());
  if (item_ < shown) {
    char* end = piece_ + length_;
    do end = put_object(end, oldest_[item_++]);
    while (item_ < shown && end + kObjectLine <= piece_ + kPiece);
    length_ = static_cast<size_t>(end - piece_);
    return;
  }
  if (item_ < group().objects) print("\t… %lu more\n", group().objects - item_);
  section_ = ++group_ < groups_.size() ? Section::kGroup : Section::kRest;
}

// Prints the sums over the records without a group (TraceGroups::rest()), if there are any.
void TraceText::print_rest() {
  section_ = Section::kEnd;
  const TraceGroup& rest = groups_.rest();
  if (rest.objects == 0) return;
  print("\n");
  print_amount(rest.bytes, rest.objects);
  print(" from stack");
  if (header.state.options.sample != 0) {
    print(", estimated %lu bytes in %lu allocations", rest.estimate.whole_bytes(),
          rest.estimate.whole_objects());
  }
  print("\n\tnot attributed: there was no memory for more stacks\n");
}
