#include "trace/dump/trace_binary.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/planted.h"
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

// A set of numbers, of `count` from `first` on.
class Numbers {
 public:
  Numbers(uint32_t first, uint32_t count) : first_(first), words_(count / kBits + 1) {}
  Result<void> init() {
    TRY(bits_.reserve(words_));
    std::fill_n(bits_.data(), words_, 0);
    return {};
  }
  void add(uint32_t number) { word(number) |= bit(number); }
  void remove(uint32_t number) { word(number) &= ~bit(number); }
  uint32_t count() const {
    uint32_t count = 0;
    for (uint32_t i = 0; i < words_; i++) count += static_cast<uint32_t>(std::popcount(bits_[i]));
    return count;
  }
  // Ascending.
  template <typename Visit>
  void each(Visit visit) const {
    for (uint32_t i = 0; i < words_; i++) {
      for (uint64_t left = bits_[i]; left != 0; left &= left - 1)
        visit(first_ + i * kBits + static_cast<uint32_t>(std::countr_zero(left)));
    }
  }

 private:
  static constexpr uint32_t kBits = 64;
  uint64_t& word(uint32_t number) { return bits_[(number - first_) / kBits]; }
  uint64_t bit(uint32_t number) const { return uint64_t{1} << (number - first_) % kBits; }

  const uint32_t first_, words_;
  PageBuffer<uint64_t> bits_;
};

}  // namespace

template <typename Item>
void TraceBinary::Piece::set(uint64_t index, const Item& item) {
  static_assert(sizeof(Item) <= kMax);
  offset = index * sizeof(Item);
  size = sizeof(Item);
  memcpy(bytes, &item, sizeof(Item));
}

TraceBinary::~TraceBinary() {
  for (uint32_t i = 0; i < source_count_; i++) {
    sources_[i]->~Source();
    if (!planted(Planted::kDumpCopy)) trace_copy_free(sources_[i], sizeof(Source));
  }
}

Result<TraceHeader*> TraceBinary::add(const TraceHeader& header, uint32_t kind, uint32_t flags,
                                      TraceTable& table, uint64_t (*now)()) {
  if (source_count_ == sources_.capacity())
    TRY(sources_.reserve(2 * source_count_ + 1, source_count_));
  void* memory = trace_copy_alloc(sizeof(Source));
  if (!memory) return Errno::ENOMEM;
  auto* source = new (memory) Source{.header = header, .kind = kind, .flags = flags, .copy = {}};
  sources_[source_count_++] = source;
  TRY(source->copy.take(table, *stacks_, now));
  source->header.counters = source->copy.counters();
  source->header.stacks = source->copy.stacks();
  SampleSum estimate(header.state.options.sample);
  for (uint32_t i = 0; i < source->copy.size(); i++) estimate.add(source->copy[i].size());
  source->header.estimate = estimate.sum();
  return &source->header;
}

Result<void> TraceBinary::finish(const Moment& moment) {
  TRY(collect_contexts());
  TRY(collect_stacks());
  TRY(lay_out());
  memcpy(header_.magic, ABI_TRACEDUMP_MAGIC, sizeof(header_.magic));
  header_.version = ABI_TRACEDUMP_VERSION;
  header_.header_size = sizeof(abi_tracedump_header);
  header_.section_header_size = sizeof(abi_tracedump_section);
  header_.sections = section_count_;
  header_.time = moment.time;
  header_.memory_limit = moment.memory_limit;
  header_.memory_used = moment.memory_used;
  header_.commands = moment.commands;
  header_.build_id_size =
      static_cast<uint32_t>(std::min(moment.build_id.size(), sizeof(header_.build_id)));
  std::copy_n(moment.build_id.begin(), header_.build_id_size, header_.build_id);
  return {};
}

void TraceBinary::mark(StoreMark& mark) {
  for (uint32_t i = 0; i < source_count_; i++) sources_[i]->copy.mark(mark);
}

// Those that a record names. What comes while this is done is none of them.
Result<void> TraceBinary::collect_contexts() {
  Numbers numbers(0, contexts_->end());
  TRY(numbers.init());
  for (uint32_t i = 0; i < source_count_; i++) {
    const TraceCopy& copy = sources_[i]->copy;
    uint32_t last = 0;
    for (uint32_t r = 0; r < copy.size(); r++) {
      if (copy[r].context != last && (last = copy[r].context) != 0) numbers.add(last);
    }
  }
  TRY(context_list_.reserve(numbers.count()));
  TRY(programs_.reserve(numbers.count()));
  numbers.each([this](uint32_t id) {
    programs_[context_count_] = contexts_->get(id)->program;
    context_list_[context_count_++] = id;
  });
  const ContextTable::Program** const first = programs_.data();
  std::sort(first, first + context_count_);
  program_count_ = static_cast<uint32_t>(std::unique(first, first + context_count_) - first);
  return {};
}

// The same.
Result<void> TraceBinary::collect_stacks() {
  Numbers numbers(0, stacks_->end());
  TRY(numbers.init());
  for (uint32_t i = 0; i < source_count_; i++) {
    const TraceCopy& copy = sources_[i]->copy;
    uint32_t user = 0;
    for (uint32_t r = 0; r < copy.size(); r++) {
      if (copy.begins_stack(r)) numbers.add(copy[r].stack);
      if (copy[r].user_stack != user) numbers.add(user = copy[r].user_stack);
    }
  }
  numbers.remove(0);
  TRY(stack_list_.reserve(numbers.count()));
  numbers.each([this](uint32_t id) {
    stack_list_[stack_count_++] = {id, frame_count_};
    frame_count_ += stacks_->view(id).size();
  });
  return {};
}

Result<void> TraceBinary::lay_out() {
  TRY(sections_.reserve(5 + source_count_));
  header_.size = sizeof(abi_tracedump_header);
  add_section(ABI_TRACEDUMP_SOURCES, sizeof(abi_tracedump_source), source_count_);
  add_section(ABI_TRACEDUMP_CONTEXTS, sizeof(abi_tracedump_context), context_count_);
  add_section(ABI_TRACEDUMP_STACKS, sizeof(abi_tracedump_stack), stack_count_);
  add_section(ABI_TRACEDUMP_FRAMES, sizeof(uint64_t), frame_count_);
  add_section(ABI_TRACEDUMP_STRINGS, 1, program_name(program_count_));
  for (uint32_t i = 0; i < source_count_; i++) {
    add_section(ABI_TRACEDUMP_RECORDS, sizeof(abi_tracedump_record), sources_[i]->copy.size(), i);
  }
  return {};
}

void TraceBinary::add_section(uint32_t tag, uint32_t item_size, uint64_t count, uint32_t source) {
  const uint64_t size = align_up(count * item_size, kAlignment);
  sections_[section_count_++] = {header_.size,
                                 {.tag = tag,
                                  .item_size = item_size,
                                  .count = count,
                                  .size = size,
                                  .source = source,
                                  .reserved = 0}};
  header_.size += sizeof(abi_tracedump_section) + size;
}

size_t TraceBinary::read(char* buffer, size_t size, uint64_t offset) const {
  if (offset >= header_.size) return 0;
  size = std::min(size, header_.size - offset);
  for (size_t done = 0; done < size;) {
    Piece piece;
    make_piece(offset + done, piece);
    const size_t skipped = offset + done - piece.offset;
    const size_t part = std::min(size - done, piece.size - skipped);
    memcpy(buffer + done, piece.bytes + skipped, part);
    done += part;
  }
  return size;
}

void TraceBinary::make_piece(uint64_t offset, Piece& piece) const {
  if (offset < sizeof(header_)) return piece.set(0, header_);
  const Section* const first = sections_.data();
  const Section* const after =
      std::upper_bound(first, first + section_count_, offset,
                       [](uint64_t at, const Section& section) { return at < section.offset; });
  const Section& section = after[-1];
  const uint64_t contents = section.offset + sizeof(section.header);
  if (offset < contents) {
    piece.set(0, section.header);
    piece.offset = section.offset;
    return;
  }
  if (offset - contents < section.header.count * section.header.item_size) {
    make_item(section, offset - contents, piece);
  } else {
    piece.set(offset - contents, char{0});
  }
  piece.offset += contents;
}

// `offset` is in the section's contents, and the piece's offset will be too.
void TraceBinary::make_item(const Section& section, uint64_t offset, Piece& piece) const {
  const auto index = static_cast<uint32_t>(offset / section.header.item_size);
  switch (section.header.tag) {
    case ABI_TRACEDUMP_SOURCES:
      return piece.set(index, source_item(index));
    case ABI_TRACEDUMP_CONTEXTS:
      return piece.set(index, context_item(index));
    case ABI_TRACEDUMP_STACKS:
      return piece.set(index, stack_item(index));
    case ABI_TRACEDUMP_FRAMES:
      return make_frames(index, piece);
    case ABI_TRACEDUMP_STRINGS: {
      char text[kStringRoom] = {};
      const char* string = string_at(static_cast<uint32_t>(offset / kStringRoom));
      memcpy(text, string, strnlen(string, kStringRoom - 1));
      piece.offset = offset / kStringRoom * kStringRoom;
      piece.size = kStringRoom;
      memcpy(piece.bytes, text, kStringRoom);
      return;
    }
    case ABI_TRACEDUMP_RECORDS:
      return piece.set(index, record_item(*sources_[section.header.source], index));
  }
}

const char* TraceBinary::string_at(uint32_t number) const {
  if (number == 0) return "";
  number--;
  if (number < source_count_) return sources_[number]->header.name;
  number -= source_count_;
  const ContextTable::Program& program = *programs_[number / 2];
  return number % 2 == 0 ? program.name : program.path;
}

abi_tracedump_source TraceBinary::source_item(uint32_t index) const {
  const Source& source = *sources_[index];
  const TraceHeader& header = source.header;
  const TraceOptions& options = header.state.options;
  const TraceCounters& counters = header.counters;
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
          .stacks = source.copy.stacks(),
          .seen = counters.seen,
          .recorded = counters.recorded,
          .dropped = counters.dropped,
          .filtered = counters.filtered,
          .freed = counters.freed,
          .cleared = counters.cleared,
          .live = counters.live(),
          .bytes = counters.live_bytes,
          .untracked = header.untracked,
          .unmatched = counters.unmatched,
          .stacks_lost = counters.stacks_lost,
          .contexts_lost = counters.contexts_lost,
          .truncated = counters.truncated,
          .estimated_bytes = header.estimate.whole_bytes(),
          .estimated_objects = header.estimate.whole_objects()};
}

abi_tracedump_context TraceBinary::context_item(uint32_t index) const {
  const ContextTable::Context& context = *contexts_->get(context_list_[index]);
  const ContextTable::Program& program = *context.program;
  const auto* const found =
      std::lower_bound(programs_.data(), programs_.data() + program_count_, context.program);
  const uint32_t name = program_name(static_cast<uint32_t>(found - programs_.data()));
  abi_tracedump_context item = {};
  item.id = context_list_[index];
  item.kind = kind_of(context.kind);
  item.pid = context.pid;
  item.name = name;
  item.path = name + kStringRoom;
  item.build_id_size = program.build_id_size;
  static_assert(sizeof(item.build_id) >= kMaxBuildId);
  memcpy(item.build_id, program.build_id.data(), program.build_id_size);
  return item;
}

abi_tracedump_stack TraceBinary::stack_item(uint32_t index) const {
  const Stack& stack = stack_list_[index];
  const StackTable::View view = stacks_->view(stack.id);
  return {.id = stack.id,
          .kind = view.kind() == StackKind::kKernel ? ABI_TRACEDUMP_KERNEL : ABI_TRACEDUMP_USER,
          .first_frame = stack.first_frame,
          .frames = static_cast<uint32_t>(view.size()),
          .reserved = 0};
}

abi_tracedump_record TraceBinary::record_item(const Source& source, uint32_t index) const {
  const TraceRecord& record = source.copy[index];
  return {.object = record.object(),
          .size = record.size(),
          .time = record.milliseconds() * kNanosecondsPerMillisecond,
          .stack = record.stack,
          .context = record.context,
          .user_stack = record.user_stack,
          // Where marks are, probes have owners.
          .mark = static_cast<uint16_t>(source.kind == ABI_TRACEDUMP_PROBE ? 0 : record.mark()),
          .cpu = static_cast<uint8_t>(record.cpu()),
          .flags = static_cast<uint8_t>(record.not_leak() ? ABI_TRACEDUMP_NOT_LEAK : 0)};
}

// All frames of the stack that frame number `index` belongs to.
void TraceBinary::make_frames(uint64_t index, Piece& piece) const {
  const Stack* const first = stack_list_.data();
  const Stack* const after =
      std::upper_bound(first, first + stack_count_, index,
                       [](uint64_t at, const Stack& stack) { return at < stack.first_frame; });
  const Stack& stack = after[-1];
  const StackTable::View view = stacks_->view(stack.id);
  piece.offset = stack.first_frame * sizeof(uint64_t);
  piece.size = view.size() * sizeof(uint64_t);
  for (size_t i = 0; i < view.size(); i++) {
    const uint64_t frame = view[i];
    memcpy(piece.bytes + i * sizeof(uint64_t), &frame, sizeof(frame));
  }
}
