#include "trace/dump/binary.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/log.h"
#include "intern/shared_tables.h"
#include "lib/string.h"

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr uint64_t kAlignment = 8;
constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;

uint32_t kind_of(ContextKind kind) {
  switch (kind) {
    case ContextKind::kKernelTask:
      return ABI_TRACEDUMP_TASK;
    case ContextKind::kProcess:
      return ABI_TRACEDUMP_PROCESS;
    case ContextKind::kInterrupt:
      return ABI_TRACEDUMP_IRQ;
  }
  return 0;
}

uint32_t state_of(TracePhase phase) {
  return phase == TracePhase::kRunning ? ABI_TRACEDUMP_RUNNING : ABI_TRACEDUMP_STOPPED;
}

}  // namespace

template <typename Item>
void TraceBinary::Extent::set(uint64_t index, const Item& item) {
  static_assert(sizeof(Item) <= kMax);
  offset = index * sizeof(Item);
  size = sizeof(Item);
  memcpy(bytes, &item, sizeof(Item));
}

TraceBinary::TraceBinary(std::span<std::byte> memory, const StackTable& stacks,
                         const ContextTable& contexts)
    : stack_table_(stacks),
      context_table_(contexts),
      sources_(reinterpret_cast<Source*>(memory.data())),
      source_room_(kSourceRoom / sizeof(Source)) {
  memory = memory.subspan(kSourceRoom);
  stacks_.use(memory.first(kStackRoom));
  contexts_.use(memory.subspan(kStackRoom, kContextRoom));
  programs_.use(memory.subspan(kStackRoom + kContextRoom, kProgramRoom));
  frees_.use(memory.subspan(kStackRoom + kContextRoom + kProgramRoom, kFreeRoom));
}

void TraceBinary::clear() {
  cursor_.reset();
  while (source_count_ > 0) sources_[--source_count_].~Source();
}

Result<void> TraceBinary::begin(uint32_t sources) {
  clear();
  if (sources <= source_room_) return {};
  TRY(more_sources_.reserve(sources * sizeof(Source)));
  sources_ = reinterpret_cast<Source*>(more_sources_.data());
  source_room_ = sources;
  return {};
}

void TraceBinary::add(const TraceHeader& header, uint32_t kind, uint32_t flags, TraceTable& table) {
  ASSERT(source_count_ < source_room_);
  auto* const source = new (&sources_[source_count_++]) Source{header, kind, flags};
  source->snapshot.choose(table);
}

Result<void> TraceBinary::open() {
  for (uint32_t i = 0; i < source_count_; i++) TRY(sources_[i].snapshot.open());
  return {};
}

void TraceBinary::finish(const Facts& facts) {
  for (uint32_t i = 0; i < source_count_; i++) collect(i);
  const NumbersReading reading;  // until retain() retains the stacks that have freed
  collect_frees();
  stacks_.sort([](const Stack& a, const Stack& b) { return a.id < b.id; });
  stacks_.reindex();
  for (Stack& stack : stacks_.items()) {
    stack.source_or_frame = static_cast<uint32_t>(frame_count_);
    frame_count_ += stack_table_.view(stack.id).size();
  }
  contexts_.sort([](const Context& a, const Context& b) { return a.id < b.id; });
  contexts_.reindex();
  memcpy(header_.magic, ABI_TRACEDUMP_MAGIC, sizeof(header_.magic));
  header_.version = ABI_TRACEDUMP_VERSION;
  header_.header_size = sizeof(abi_tracedump_header);
  header_.section_header_size = sizeof(abi_tracedump_section);
  header_.sections = kSections + source_count_;
  header_.time = facts.time;
  header_.memory_limit = facts.memory_limit;
  header_.memory_used = facts.memory_used;
  header_.commands = facts.commands;
  header_.build_id_size =
      static_cast<uint32_t>(std::min(facts.build_id.size(), sizeof(header_.build_id)));
  std::copy_n(facts.build_id.begin(), header_.build_id_size, header_.build_id);
  lay_out();
  finished_.store(true, std::memory_order_release);
}

// Adds up the records of a source, and collects their stacks and contexts. Caches the last stack
// and context, since adjacent records usually have the same ones.
void TraceBinary::collect(uint32_t index) {
  Source& source = sources_[index];
  TraceHeader& header = source.header;
  SampleSum estimate(header.state.options.sample);
  // Stack and context of the last record, and whether there was memory for them.
  StackId stack = StackId::kNone, user_stack = StackId::kNone;
  ContextId context = ContextId::kNone;
  bool has_stack = true, has_user_stack = true, has_context = true;
  source.snapshot.visit(slice_, [&](const TraceRecord& record) {
    if (record.stack != stack) has_stack = add_stack(stack = record.stack, index);
    if (record.user_stack != user_stack)
      has_user_stack = add_user_stack(user_stack = record.user_stack);
    if (record.context != context) has_context = add_context(context = record.context);
    header_.stacks_unnamed += !(has_stack && has_user_stack);
    header_.contexts_unnamed += !has_context;
    estimate.add(record.size());
  });
  header.counters = source.snapshot.counters();
  header.counters.set_untracked(header.objects);
  header.counters.set_estimate(estimate.sum());
}

// Adds the stack of a record. False if there is no memory for it.
bool TraceBinary::add_stack(StackId id, uint32_t source) {
  if (id == StackId::kNone) return true;
  const uint32_t number = stacks_.find_or_add(id);
  if (number == stacks_.kNone) return false;
  if (stacks_[number].source_or_frame != source + 1) {
    stacks_[number].source_or_frame = source + 1;
    sources_[source].stacks++;
  }
  return true;
}

bool TraceBinary::add_user_stack(StackId id) {
  return id == StackId::kNone || stacks_.find_or_add(id) != stacks_.kNone;
}

// Adds a context and its program. False if there is no memory for one of the two.
bool TraceBinary::add_context(ContextId id) {
  if (id == ContextId::kNone || contexts_.find(id) != contexts_.kNone) return true;
  const uint32_t program = programs_.find_or_add(context_table_.get(id)->program);
  if (program == programs_.kNone) return false;
  const uint32_t number = contexts_.find_or_add(id);
  if (number == contexts_.kNone) return false;
  contexts_[number].program = program;
  return true;
}

// Copies the counts of the stacks that the records have. If a trace has ended meanwhile, its table
// does not retain the numbers in its counts any more; these counts are left out.
void TraceBinary::collect_frees() {
  const uint32_t of_records = stacks_.size();
  for (uint32_t i = 0; i < source_count_; i++) {
    const TraceTable& table = sources_[i].snapshot.table();
    const FreeCounts* const counts = table.is_user() ? table.free_counts() : nullptr;
    if (!counts) continue;
    sources_[i].flags |= ABI_TRACEDUMP_COUNTS_FREES;
    header_.frees_uncounted += counts->lost();
    counts->visit([&](StackId allocated_by, StackId freed_by, uint64_t frees) {
      // kNone is no number of a stack, but greater than all.
      if (stacks_.find(allocated_by) < of_records)
        count_frees({{allocated_by, freed_by}, i}, frees);
    });
  }
  frees_.sort([](const FreesBy& a, const FreesBy& b) {
    const abi_tracedump_frees x = a.item(), y = b.item();
    if (x.source != y.source) return x.source < y.source;
    if (x.stack != y.stack) return x.stack < y.stack;
    return x.count != y.count ? x.count > y.count : x.freed_by < y.freed_by;
  });
}

void TraceBinary::count_frees(const FreesBy::Key& key, uint64_t frees) {
  uint32_t number = frees_.find(key);
  if (number == frees_.kNone && stacks_.find_or_add(key.stacks.other_stack()) != stacks_.kNone)
    number = frees_.find_or_add(key);
  (number == frees_.kNone ? header_.frees_uncounted : frees_[number].count) += frees;
}

abi_tracedump_frees TraceBinary::FreesBy::item() const {
  return {.source = key_.source,
          .stack = number_of(key_.stacks.stack),
          .freed_by = number_of(key_.stacks.other_stack()),
          .reserved = 0,
          .count = count};
}

void TraceBinary::lay_out() {
  header_.size = sizeof(abi_tracedump_header);
  section_count_ = 0;
  add_section(ABI_TRACEDUMP_SOURCES, sizeof(abi_tracedump_source), source_count_);
  add_section(ABI_TRACEDUMP_CONTEXTS, sizeof(abi_tracedump_context), contexts_.size());
  add_section(ABI_TRACEDUMP_STACKS, sizeof(abi_tracedump_stack), stacks_.size());
  add_section(ABI_TRACEDUMP_FRAMES, sizeof(uint64_t), frame_count_);
  add_section(ABI_TRACEDUMP_STRINGS, 1, program_name(programs_.size()));
  add_section(ABI_TRACEDUMP_FREES, sizeof(abi_tracedump_frees), frees_.size());
  for (uint32_t i = 0; i < source_count_; i++) {
    sources_[i].records_at = header_.size;
    header_.size += sizeof(abi_tracedump_section) + records_section(i).size;
  }
}

void TraceBinary::add_section(uint32_t tag, uint32_t item_size, uint64_t count) {
  const uint64_t size = align_up(count * item_size, kAlignment);
  sections_[section_count_++] = {header_.size,
                                 {.tag = tag,
                                  .item_size = item_size,
                                  .count = count,
                                  .size = size,
                                  .source = 0,
                                  .reserved = 0}};
  header_.size += sizeof(abi_tracedump_section) + size;
}

abi_tracedump_section TraceBinary::records_section(uint32_t source) const {
  static_assert(sizeof(abi_tracedump_record) % kAlignment == 0);
  const uint64_t count = sources_[source].header.counters.live;
  return {.tag = ABI_TRACEDUMP_RECORDS,
          .item_size = sizeof(abi_tracedump_record),
          .count = count,
          .size = count * sizeof(abi_tracedump_record),
          .source = source,
          .reserved = 0};
}

size_t TraceBinary::read(char* buffer, size_t size, uint64_t offset) {
  if (offset >= header_.size) return 0;
  size = std::min(size, header_.size - offset);
  for (size_t done = 0; done < size;) {
    if (const size_t part = read_records(buffer + done, size - done, offset + done)) {
      done += part;
      continue;
    }
    make_extent(offset + done, extent_);
    const size_t skipped = offset + done - extent_.offset;
    const size_t part = std::min(size - done, extent_.size - skipped);
    memcpy(buffer + done, extent_.bytes + skipped, part);
    done += part;
  }
  return size;
}

uint32_t TraceBinary::source_at(uint64_t offset) const {
  const Source* const after =
      std::upper_bound(sources_, sources_ + source_count_, offset,
                       [](uint64_t at, const Source& source) { return at < source.records_at; });
  return static_cast<uint32_t>(after - sources_) - 1;
}

size_t TraceBinary::read_records(char* buffer, size_t size, uint64_t offset) {
  if (source_count_ == 0 || offset < sources_[0].records_at) return 0;
  const uint32_t number = source_at(offset);
  const Source& source = sources_[number];
  const uint64_t contents = source.records_at + sizeof(abi_tracedump_section);
  if (offset < contents) return 0;
  constexpr size_t kItem = sizeof(abi_tracedump_record);
  const uint64_t index = (offset - contents) / kItem;
  size_t skipped = (offset - contents) % kItem;
  go_to(number, index);
  size_t done = 0;
  for (const TraceRecord& record : cursor_->slice.subspan(index - cursor_->first)) {
    const abi_tracedump_record item = record_item(source, record);
    const size_t part = std::min(kItem - skipped, size - done);
    memcpy(buffer + done, reinterpret_cast<const char*>(&item) + skipped, part);
    done += part;
    skipped = 0;
    if (done == size) break;
  }
  return done;
}

// Moves the cursor to the slice that has record number `index` of the source. There is such a
// record, since the snapshot has as many records as its counters say.
void TraceBinary::go_to(uint32_t source, uint64_t index) {
  if (!cursor_ || cursor_->source != source || index < cursor_->first) {
    cursor_ = RecordCursor{source, TraceSnapshot::Walk(sources_[source].snapshot, slice_), {}, 0};
  }
  while (index >= cursor_->first + cursor_->slice.size()) {
    cursor_->first += cursor_->slice.size();
    cursor_->slice = cursor_->walk.next();
    ASSERT(!cursor_->slice.empty());
  }
}

void TraceBinary::make_extent(uint64_t offset, Extent& extent) const {
  if (offset < sizeof(header_)) return extent.set(0, header_);
  if (source_count_ > 0 && offset >= sources_[0].records_at) {
    const uint32_t source = source_at(offset);
    extent.set(0, records_section(source));
    extent.offset = sources_[source].records_at;
    return;
  }
  const Section* const after =
      std::upper_bound(sections_, sections_ + section_count_, offset,
                       [](uint64_t at, const Section& section) { return at < section.offset; });
  const Section& section = after[-1];
  const uint64_t contents = section.offset + sizeof(section.header);
  if (offset < contents) {
    extent.set(0, section.header);
    extent.offset = section.offset;
    return;
  }
  if (offset - contents < section.header.count * section.header.item_size) {
    make_item(section, offset - contents, extent);
  } else {
    extent.set(offset - contents, char{0});
  }
  extent.offset += contents;
}

// `offset`, and the resulting offset of the extent, are relative to the section's contents.
void TraceBinary::make_item(const Section& section, uint64_t offset, Extent& extent) const {
  const auto index = static_cast<uint32_t>(offset / section.header.item_size);
  switch (section.header.tag) {
    case ABI_TRACEDUMP_SOURCES:
      return extent.set(index, source_item(index));
    case ABI_TRACEDUMP_CONTEXTS:
      return extent.set(index, context_item(index));
    case ABI_TRACEDUMP_STACKS:
      return extent.set(index, stack_item(index));
    case ABI_TRACEDUMP_FRAMES:
      return make_frames(index, extent);
    case ABI_TRACEDUMP_STRINGS: {
      char text[kStringRoom] = {};
      const char* string = string_at(static_cast<uint32_t>(offset / kStringRoom));
      memcpy(text, string, strnlen(string, kStringRoom - 1));
      extent.offset = offset / kStringRoom * kStringRoom;
      extent.size = kStringRoom;
      memcpy(extent.bytes, text, kStringRoom);
      return;
    }
    case ABI_TRACEDUMP_FREES:
      return extent.set(index, frees_[index].item());
  }
}

const char* TraceBinary::string_at(uint32_t number) const {
  if (number == 0) return "";
  number--;
  if (number < source_count_) return sources_[number].header.name;
  number -= source_count_;
  const ContextTable::Program& program = *programs_[number / 2].its;
  return number % 2 == 0 ? program.name : program.path;
}

abi_tracedump_source TraceBinary::source_item(uint32_t index) const {
  const Source& source = sources_[index];
  const TraceHeader& header = source.header;
  const TraceOptions& options = header.state.options;
#define COUNTER(name) .name = header.counters.name,
  return {.name = source_name(index),
          .kind = source.kind,
          .state = state_of(header.state.phase),
          .flags = source.flags,
          .object_size = header.object_size,
          .min_size = options.min_size,
          .max_size = options.max_size == TraceOptions::kAnySize ? UINT64_MAX : options.max_size,
          .sample = options.sample,
          .depth = options.depth,
          .pid = options.pid,
          .mark = header.state.mark,
          .stacks = source.stacks,
          ABI_TRACEDUMP_COUNTERS(COUNTER, COUNTER, COUNTER)};
#undef COUNTER
}

abi_tracedump_context TraceBinary::context_item(uint32_t index) const {
  const ContextTable::Context& context = *context_table_.get(contexts_[index].id);
  const ContextTable::Program& program = *context.program;
  const uint32_t name = program_name(contexts_[index].program);
  abi_tracedump_context item = {};
  item.id = number_of(contexts_[index].id);
  item.kind = kind_of(context.kind);
  item.pid = context.pid;
  item.thread = context.thread;
  item.name = name;
  item.path = name + kStringRoom;
  item.build_id_size = program.build_id_size;
  static_assert(sizeof(item.build_id) >= kMaxBuildId);
  memcpy(item.build_id, program.build_id.data(), program.build_id_size);
  return item;
}

abi_tracedump_stack TraceBinary::stack_item(uint32_t index) const {
  const Stack& stack = stacks_[index];
  const StackTable::View view = stack_table_.view(stack.id);
  return {.id = number_of(stack.id),
          .kind = view.kind() == StackKind::kKernel ? ABI_TRACEDUMP_KERNEL : ABI_TRACEDUMP_USER,
          .first_frame = stack.source_or_frame,
          .frames = static_cast<uint32_t>(view.size()),
          .reserved = 0};
}

abi_tracedump_record TraceBinary::record_item(const Source& source, const TraceRecord& record) {
  StackId stack = record.stack, user_stack = record.user_stack;
  ContextId context = record.context;
  if (header_.stacks_unnamed > 0) {
    if (stacks_.find(stack) == stacks_.kNone) stack = StackId::kNone;
    if (stacks_.find(user_stack) == stacks_.kNone) user_stack = StackId::kNone;
  }
  if (header_.contexts_unnamed > 0 && contexts_.find(context) == contexts_.kNone)
    context = ContextId::kNone;
  return {.object = record.object(),
          .size = record.size(),
          .time = record.time().value * kNanosecondsPerMillisecond,
          .stack = number_of(stack),
          .context = number_of(context),
          .user_stack = number_of(user_stack),
          // The records of probe sessions have an owner in the place of a mark.
          .mark = static_cast<uint16_t>(source.kind == ABI_TRACEDUMP_PROBE ? 0 : record.mark()),
          .cpu = static_cast<uint8_t>(record.cpu()),
          .flags = static_cast<uint8_t>(record.not_leak() ? ABI_TRACEDUMP_NOT_LEAK : 0)};
}

// Makes an extent of all frames of the stack to which frame number `index` belongs.
void TraceBinary::make_frames(uint64_t index, Extent& extent) const {
  const std::span<const Stack> stacks = stacks_.items();
  const Stack& stack = std::upper_bound(
      stacks.begin(), stacks.end(), index,
      [](uint64_t at, const Stack& stack) { return at < stack.source_or_frame; })[-1];
  const StackTable::View view = stack_table_.view(stack.id);
  extent.offset = stack.source_or_frame * sizeof(uint64_t);
  extent.size = view.size() * sizeof(uint64_t);
  for (size_t i = 0; i < view.size(); i++) {
    const uint64_t frame = view[i];
    memcpy(extent.bytes + i * sizeof(uint64_t), &frame, sizeof(frame));
  }
}
