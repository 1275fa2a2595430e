// #debug/alloc: allocates and frees objects on request. `leak` allocates objects and holds them
// until `free` frees them, the oldest first. `churn` allocates each object and frees it at once.
//
// NAME is a cache, an arena, `kmalloc` or `kernel_stack`. size=BYTES is the size of an object of an
// arena (default: the arena's quantum) or of `kmalloc` (default: 20000 bytes). For each NAME, the
// held objects are in a list, oldest first. The lists lie in pages of a separate arena, `debug`, so
// that they do not change the counts of other arenas and caches. Tests and README expect these
// names of functions in traces: leak_at_depth, debug_alloc_write, debug_interrupt.
#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_alloc.h"

#include <atomic>
#include <utility>

#include "arch/x86_64/trap.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "core/log.h"
#include "drivers/dev/debug_cache.h"
#include "drivers/dev/debug_failnext.h"
#include "kmalloc.h"
#include "lib/optimizer.h"
#include "lib/quoted.h"
#include "lib/string.h"
#include "ns/device.h"
#include "proc/process.h"
#include "sched/task.h"
#include "slab.h"
#include "trace/trace.h"

namespace {

constexpr const char* kAllocSyntax =
    "leak NAME N [depth=D] [size=BYTES] [irq] [atomic] [stays], free NAME N, churn NAME N, "
    "cache NAME BYTES N, destroy NAME or failnext N [after=M] [process=K]";
constexpr uint64_t kMaxObjects = 100'000'000;
// The most frames of leak_at_depth. Together with the frames of their callers, these are more than
// a trace records.
constexpr uint64_t kMaxDepth = 64;
constexpr uint64_t kMaxSize = 1 << 30;
constexpr uint64_t kUsualKmalloc = 20'000;  // larger than any cache of kmalloc

constinit Mutex debug_mutex{LockRank::kDebugDevice};

// --- Sources of leaked objects.

constinit arena* notes_arena = nullptr;  // pages of the lists of held objects

enum class Kind : uint8_t { kNone, kSource, kKmalloc, kKernelStack };

struct Origin {
  Kind kind = Kind::kNone;
  TraceSource source = {};  // set for kSource

  bool operator==(const Origin&) const = default;
  const char* name() const {
    return kind == Kind::kKmalloc       ? "kmalloc"
           : kind == Kind::kKernelStack ? "kernel_stack"
                                        : source.name();
  }
  // Take and release a reference to the source.
  void hold() const {
    if (source) source.hold();
  }
  void release() const {
    if (source) source.release();
  }
};

// The result of leak_at_depth.
struct Leaked {
  void* object;     // nullptr: out of memory
  uint64_t detail;  // for an arena: the size in bytes; for a kernel stack: KernelStack::memory
};

}  // namespace

// Allocates an object. `size`, in bytes, is used by arenas and kmalloc only.
[[gnu::always_inline]] static inline Leaked allocate(const Origin& origin, uint64_t size,
                                                     int flags) {
  switch (origin.kind) {
    case Kind::kSource:
      if (arena* const arena = origin.source.arena())
        return {arena_alloc(arena, size, flags), size};
      return {kmem_cache_alloc(origin.source.cache(), flags), 0};
    case Kind::kKmalloc:
      return {kmalloc(size, flags), 0};
    case Kind::kKernelStack: {
      Result<KernelStack> stack = kernel_stack_alloc();
      if (!stack) return {};
      return {reinterpret_cast<void*>(stack->base), reinterpret_cast<uint64_t>(stack->memory)};
    }
    case Kind::kNone:
      break;
  }
  return {};
}

// The arguments of allocate(), together: the frames of leak_at_depth() are many.
struct Allocation {
  const Origin& origin;
  uint64_t size;
  int flags;
};

// Allocates an object. Calls itself first, so that the allocation's call stack has `depth` frames
// of this function. escape() keeps the compiler from turning the recursive call into a loop or a
// jump.
// stack: recursion up to 63 deep, because `depth` is at most kMaxDepth.
[[gnu::noinline, gnu::noclone]] static Leaked leak_at_depth(const Allocation& wanted,
                                                            uint64_t depth) {
  Leaked leaked = depth > 1 ? leak_at_depth(wanted, depth - 1)
                            : allocate(wanted.origin, wanted.size, wanted.flags);
  escape(leaked.object);
  return leaked;
}

namespace {

void give_back(const Origin& origin, const Leaked& leaked) {
  switch (origin.kind) {
    case Kind::kSource:
      if (arena* const arena = origin.source.arena()) {
        arena_free(arena, leaked.object, leaked.detail);
      } else {
        kmem_cache_free(origin.source.cache(), leaked.object);
      }
      break;
    case Kind::kKmalloc:
      kfree(leaked.object);
      break;
    case Kind::kKernelStack:
      kernel_stack_free(
          {reinterpret_cast<uint64_t>(leaked.object), reinterpret_cast<void*>(leaked.detail)});
      break;
    case Kind::kNone:
      break;
  }
}

// --- Held objects.

// A page with a part of a list of objects: objects[first] to objects[end - 1]. Objects are added at
// the end. take_oldest() takes them from the front, free_newest() from the end.
struct Chunk {
  static constexpr size_t kRoom = (kPageSize - 16) / sizeof(Leaked);
  Chunk* next;
  uint32_t first, end;
  Leaked objects[kRoom];
};
static_assert(sizeof(Chunk) == kPageSize);

// The objects of one origin, oldest first.
class Holding {
 public:
  Origin origin;  // holds a reference; kNone: the slot is free
  uint64_t count = 0;

  // Makes room for one more object, so that add cannot fail. ENOMEM.
  Result<void> reserve() {
    if (last_ && last_->end < Chunk::kRoom) return {};
    auto* chunk = static_cast<Chunk*>(arena_alloc(notes_arena, kPageSize, KM_SLEEP));
    if (!chunk) return Errno::ENOMEM;
    chunk->next = nullptr;
    chunk->first = chunk->end = 0;
    (last_ ? last_->next : first_) = chunk;
    last_ = chunk;
    return {};
  }
  void add(const Leaked& leaked) {
    last_->objects[last_->end++] = leaked;
    count++;
  }
  Leaked take_oldest() {
    while (first_->first == first_->end) drop_first();
    count--;
    return first_->objects[first_->first++];
  }
  // Frees the newest objects, so that `kept` objects remain.
  void free_newest(uint64_t kept) {
    uint64_t before = 0;
    Chunk* chunk = first_;
    for (; before + chunk->end - chunk->first < kept; chunk = chunk->next)
      before += chunk->end - chunk->first;
    const uint32_t end = chunk->first + static_cast<uint32_t>(kept - before);
    Chunk* later = std::exchange(chunk->next, nullptr);
    free_range(*chunk, end);
    chunk->end = end;
    last_ = chunk;
    while (later) {
      Chunk* next = later->next;
      free_range(*later, later->first);
      arena_free(notes_arena, later, kPageSize);
      later = next;
    }
    count = kept;
  }
  // If this Holding has no objects, frees its slot in `holdings` for another origin.
  void settle() {
    if (count > 0) return;
    while (first_) drop_first();
    std::exchange(origin, {}).release();
  }

 private:
  void free_range(Chunk& chunk, uint32_t from) {
    for (uint32_t i = from; i < chunk.end; i++) give_back(origin, chunk.objects[i]);
  }
  void drop_first() {
    Chunk* chunk = first_;
    first_ = chunk->next;
    if (!first_) last_ = nullptr;
    arena_free(notes_arena, chunk, kPageSize);
  }

  Chunk* first_ = nullptr;
  Chunk* last_ = nullptr;
};

constinit Holding holdings[256];  // guarded by debug_mutex

Holding* find_holding(const Origin& origin) {
  for (Holding& holding : holdings) {
    if (holding.origin == origin) return &holding;
  }
  return nullptr;
}

// --- Commands of alloc.

enum class Verb : uint8_t { kLeak, kFree, kChurn, kCache, kDestroy, kFailNext };

struct AllocCommand {
  AllocCommand() = default;
  AllocCommand(const AllocCommand&) = delete;
  AllocCommand& operator=(const AllocCommand&) = delete;
  ~AllocCommand() { origin.release(); }

  Verb verb = Verb::kLeak;
  Origin origin;  // holds a reference; for Verb::kCache set only when the cache has been made
  std::string_view name;  // for Verb::kCache: name of the cache
  uint64_t count = 0;
  uint64_t depth = 1;
  uint64_t size = 0;  // 0: the default
  uint64_t after = 0;
  uint64_t process = 0;  // 0: failnext applies to the writer alone
  bool irq = false;
  bool atomic = false;
  bool stays = false;  // kmem_not_leak() is called for each object
};

Result<void> parse_count(std::string_view text, uint64_t min, uint64_t& count) {
  if (parse_number(text, min, kMaxObjects, &count)) return {};
  return fail(Errno::EINVAL, "\"%.*s\": N is a number from %lu to %lu",
              static_cast<int>(text.size()), text.data(), min, kMaxObjects);
}

Result<void> parse_option(std::string_view option, AllocCommand& command) {
  constexpr std::string_view kDepth = "depth=", kSize = "size=";
  if (option == "irq") {
    command.irq = true;
  } else if (option == "atomic") {
    command.atomic = true;
  } else if (option == "stays") {
    command.stays = true;
  } else if (option.starts_with(kSize)) {
    if (!parse_number(option.substr(kSize.size()), 1, kMaxSize, &command.size)) {
      return fail(Errno::EINVAL, "\"%.*s\": a size is a number from 1 to %lu",
                  static_cast<int>(option.size()), option.data(), kMaxSize);
    }
  } else if (!option.starts_with(kDepth)) {
    return fail(Errno::EINVAL, "\"%.*s\": leak takes depth=D, size=BYTES, irq, atomic and stays",
                static_cast<int>(option.size()), option.data());
  } else if (!parse_number(option.substr(kDepth.size()), 1, kMaxDepth, &command.depth)) {
    return fail(Errno::EINVAL, "\"%.*s\": a depth is a number from 1 to %lu",
                static_cast<int>(option.size()), option.data(), kMaxDepth);
  }
  return {};
}

// Returns the origin that `name` means, and takes a reference to it. The name of a cache or arena
// takes precedence over `kmalloc` and `kernel_stack`.
Result<Origin> find_origin(std::string_view name) {
  if (const TraceSource source = TraceSource::find(name)) return Origin{Kind::kSource, source};
  if (name == "kmalloc") return Origin{Kind::kKmalloc};
  if (name == "kernel_stack") return Origin{Kind::kKernelStack};
  return fail(Errno::EINVAL,
              "no cache is called \"%.*s\", and no arena: cat '#mem/kmemstat' names them",
              static_cast<int>(name.size()), name.data());
}

// Parses the arguments of failnext: N [after=M] [process=K].
Result<void> parse_failnext(std::string_view rest, AllocCommand& command) {
  constexpr std::string_view kAfter = "after=", kProcess = "process=";
  command.verb = Verb::kFailNext;
  TRY(parse_count(next_word(rest), 0, command.count));
  std::string_view option = next_word(rest);
  if (option.starts_with(kAfter)) {
    TRY(parse_count(option.substr(kAfter.size()), 0, command.after));
    option = next_word(rest);
  }
  if (option.starts_with(kProcess)) {
    TRY(parse_count(option.substr(kProcess.size()), 1, command.process));
    option = next_word(rest);
  }
  if (option.empty()) return {};
  return fail(Errno::EINVAL, "expected failnext N [after=M] [process=K]");
}

// Sets the default size if the command has none. Rejects a size for a cache or kernel_stack,
// because their objects have a fixed size. Also rejects irq and atomic for kernel_stack.
Result<void> check_size(AllocCommand& command) {
  const Origin& origin = command.origin;
  const bool choice = origin.kind == Kind::kKmalloc || origin.source.arena();
  if (command.size != 0 && !choice) {
    return fail(Errno::EINVAL, "%.40s: only an arena and kmalloc take size=BYTES", origin.name());
  }
  if (origin.kind == Kind::kKernelStack && (command.irq || command.atomic)) {
    return fail(Errno::EINVAL,
                "kernel_stack takes neither irq nor atomic: its allocation may sleep");
  }
  if (command.size == 0 && choice) {
    command.size = origin.kind == Kind::kKmalloc ? kUsualKmalloc : origin.source.object_size();
  }
  return {};
}

// Parses the arguments of cache: NAME BYTES N.
Result<void> parse_cache(std::string_view rest, AllocCommand& command) {
  command.verb = Verb::kCache;
  command.name = next_word(rest);
  const std::string_view size = next_word(rest);
  if (!parse_number(size, 1, kMaxDebugObject, &command.size)) {
    return fail(Errno::EINVAL, "\"%s\": objects of a cache have 1 to %zu bytes", Quoted(size).get(),
                kMaxDebugObject);
  }
  TRY(parse_count(next_word(rest), 0, command.count));
  if (next_word(rest).empty()) return {};
  return fail(Errno::EINVAL, "expected %s", kAllocSyntax);
}

Result<void> parse_destroy(std::string_view rest, AllocCommand& command) {
  command.verb = Verb::kDestroy;
  const std::string_view name = next_word(rest);
  if (name.empty() || !next_word(rest).empty())
    return fail(Errno::EINVAL, "expected %s", kAllocSyntax);
  command.origin = TRY(find_origin(name));
  return {};
}

Result<void> parse(const CommandLine& line, AllocCommand& command) {
  if (line.word == "failnext") return parse_failnext(line.rest, command);
  if (line.word == "cache") return parse_cache(line.rest, command);
  if (line.word == "destroy") return parse_destroy(line.rest, command);
  if (line.word == "leak") {
    command.verb = Verb::kLeak;
  } else if (line.word == "free") {
    command.verb = Verb::kFree;
  } else if (line.word == "churn") {
    command.verb = Verb::kChurn;
  } else {
    return fail(Errno::EINVAL, "expected %s", kAllocSyntax);
  }
  std::string_view rest = line.rest;
  const std::string_view name = next_word(rest), count = next_word(rest);
  if (count.empty()) return fail(Errno::EINVAL, "expected %s", kAllocSyntax);
  TRY(parse_count(count, 1, command.count));
  for (std::string_view option = next_word(rest); !option.empty(); option = next_word(rest)) {
    if (command.verb != Verb::kLeak) return fail(Errno::EINVAL, "expected %s", kAllocSyntax);
    TRY(parse_option(option, command));
  }
  command.origin = TRY(find_origin(name));
  return check_size(command);
}

// A request to debug_interrupt and its result. One task at a time makes a request.
struct InterruptRequest {
  const AllocCommand* command;
  unsigned wanted, got;
  Leaked objects[64];
  std::atomic<bool> done;
};
constinit InterruptRequest interrupt_request{};

}  // namespace

[[gnu::noinline, gnu::noclone]] static void debug_interrupt(TrapFrame&, void*) {
  InterruptRequest& request = interrupt_request;
  request.got = 0;
  while (request.got < request.wanted) {
    const AllocCommand& command = *request.command;
    const Leaked leaked = leak_at_depth({command.origin, command.size, KM_ATOMIC}, command.depth);
    if (!leaked.object) break;
    request.objects[request.got++] = leaked;
  }
  request.done = true;
}

namespace {

// Allocates up to `wanted` objects in an interrupt on this CPU, and holds them. Returns the number
// of held objects.
unsigned leak_in_interrupt(const AllocCommand& command, uint64_t wanted, Holding& holding) {
  InterruptRequest& request = interrupt_request;
  request.command = &command;
  request.wanted = wanted < std::size(request.objects) ? static_cast<unsigned>(wanted)
                                                       : std::size(request.objects);
  request.done = false;
  interrupt_raise_self(kVectorDebugSelf);
  while (!request.done) asm volatile("pause");
  unsigned held = 0;
  for (; held < request.got && holding.reserve(); held++) {
    if (command.stays) kmem_not_leak(request.objects[held].object);
    holding.add(request.objects[held]);
  }
  for (unsigned i = held; i < request.got; i++) give_back(command.origin, request.objects[i]);
  for (Leaked& leaked : request.objects) leaked = {};  // no stale pointers to leaked objects
  return held;
}

[[gnu::always_inline]] inline Result<void> leak(const AllocCommand& command) {
  Holding* holding = find_holding(command.origin);
  if (!holding) {
    holding = find_holding({});
    if (!holding)
      return fail(Errno::ENOSPC, "objects of %zu names are held: free some first",
                  std::size(holdings));
    command.origin.hold();
    holding->origin = command.origin;
  }
  const uint64_t before = holding->count;
  uint64_t done = 0;
  while (done < command.count && !process_is_ending()) {
    if (command.irq) {
      const unsigned n = leak_in_interrupt(command, command.count - done, *holding);
      if (n == 0) break;
      done += n;
    } else {
      if (!holding->reserve()) break;
      const Leaked leaked = leak_at_depth(
          {command.origin, command.size, command.atomic ? KM_ATOMIC : KM_SLEEP}, command.depth);
      if (!leaked.object) break;
      if (command.stays) kmem_not_leak(leaked.object);
      holding->add(leaked);
      done++;
    }
  }
  if (done < command.count && done > 0) holding->free_newest(before);
  holding->settle();
  if (done == command.count) return {};
  if (process_is_ending()) return Errno::EINTR;
  return fail(Errno::ENOMEM, "out of memory after %lu of %lu objects: they are free again", done,
              command.count);
}

// Makes a cache, allocates N objects from the cache, and holds them as `leak` does.
[[gnu::always_inline]] inline Result<void> make_cache(AllocCommand& command) {
  kmem_cache* const cache = TRY(debug_cache_make(command.name, command.size));
  command.origin = Origin{Kind::kSource, cache};
  command.origin.hold();
  if (command.count == 0) return {};
  const Result<void> leaked = leak(command);
  if (!leaked) debug_cache_destroy(cache);
  return leaked;
}

// Frees all held objects of a cache and destroys the cache.
Result<void> destroy_cache(const AllocCommand& command) {
  kmem_cache* const cache = command.origin.source.cache();
  if (!debug_cache_is_made(cache)) {
    return fail(Errno::EINVAL, "%.40s is not a cache that was made here", command.origin.name());
  }
  if (Holding* const holding = find_holding(command.origin)) {
    while (holding->count > 0) give_back(command.origin, holding->take_oldest());
    holding->settle();
  }
  debug_cache_destroy(cache);
  return {};
}

Result<void> free_held(const AllocCommand& command) {
  Holding* holding = find_holding(command.origin);
  const uint64_t held = holding ? holding->count : 0;
  if (held < command.count) {
    return fail(Errno::EINVAL, "%lu objects of %s are held, not %lu", held, command.origin.name(),
                command.count);
  }
  for (uint64_t i = 0; i < command.count; i++) give_back(command.origin, holding->take_oldest());
  holding->settle();
  return {};
}

Result<void> churn(const AllocCommand& command) {
  for (uint64_t i = 0; i < command.count; i++) {
    if (process_is_ending()) return Errno::EINTR;
    const Leaked leaked = allocate(command.origin, command.size, KM_SLEEP);
    if (!leaked.object)
      return fail(Errno::ENOMEM, "out of memory after %lu of %lu rounds", i, command.count);
    give_back(command.origin, leaked);
  }
  return {};
}

}  // namespace

// Parses all lines before executing the first.
[[gnu::noinline, gnu::noclone]] Result<void> debug_alloc_write(std::string_view text) {
  TRY(check_command_text(text, kAllocSyntax));
  CommandLine line;
  bool any = false;
  for (std::string_view rest = text; next_command(rest, line); any = true) {
    AllocCommand command;
    TRY(parse(line, command));
  }
  if (!any) return fail(Errno::EINVAL, "expected %s", kAllocSyntax);
  const MutexGuard guard(debug_mutex);
  while (next_command(text, line)) {
    AllocCommand command;
    TRY(parse(line, command));
    switch (command.verb) {
      case Verb::kLeak:
        TRY(leak(command));
        break;
      case Verb::kFree:
        TRY(free_held(command));
        break;
      case Verb::kChurn:
        TRY(churn(command));
        break;
      case Verb::kCache:
        TRY(make_cache(command));
        break;
      case Verb::kDestroy:
        TRY(destroy_cache(command));
        break;
      case Verb::kFailNext:
        TRY(command.process == 0 ? debug_fail_next(command.count, command.after)
                                 : debug_fail_in_process(command.count, command.after,
                                                         static_cast<uint32_t>(command.process)));
        break;
    }
  }
  return {};
}

void debug_alloc_print(Text& text) {
  const MutexGuard guard(debug_mutex);
  for (const Holding& holding : holdings) {
    if (holding.count > 0) text.print("%s %lu\n", holding.origin.name(), holding.count);
  }
}

void debug_alloc_init() {
  notes_arena = arena_create("debug", 0, 0, kPageSize, arena_span_alloc, arena_span_free,
                             page_arena, 0, KM_SLEEP | KM_NOTRACE);
  if (!notes_arena) panic("no memory for the arena debug");
  if (!interrupt_register_vector(kVectorDebugSelf, "debug", debug_interrupt, nullptr)) {
    panic("the vector of #debug is taken");
  }
}

#endif  // CONFIG_DEBUG_DEVICE
