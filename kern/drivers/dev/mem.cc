// #mem: what the kernel's memory is used for, and the tracer's files.
//
//   kmemstat              arenas as a tree, caches under the arena that their slabs come from
//   slab_stats arena_stats free
//   kmemtrace/NAME        the trace of the cache NAME: reading gives the dump taken at open, writing commands it
//   kmemtrace/ctl         the states of all traces; commands for all caches
//   tracedump             all traces in binary, as they were at open (abi/tracedump.h)
//
// A file's text belongs to the open file and is made when it is opened, so that a reader in small pieces sees one
// moment. The nodes of caches are dynamic: a channel to one holds a reference to the cache, which keeps the structure
// when the cache is destroyed. Caches that are destroyed do not show, though open files of theirs go on.
//
// What is everyone's shows no kernel addresses.
#include "arena.h"
#include "device.h"
#include "devices.h"
#include "errstr.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "pages.h"
#include "slab.h"
#include "task.h"
#include "trace.h"

namespace {

enum File : uint64_t { kRoot, kKmemstat, kSlabStats, kArenaStats, kFree, kTraceDirectory, kTraceCtl, kTraceDump };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, kRoot},
    {"kmemstat", ABI_S_IFREG | 0444, kRoot},
    {"slab_stats", ABI_S_IFREG | 0444, kRoot},
    {"arena_stats", ABI_S_IFREG | 0444, kRoot},
    {"free", ABI_S_IFREG | 0444, kRoot},
    {"kmemtrace", ABI_S_IFDIR | 0500, kRoot},
    {"ctl", ABI_S_IFREG | 0600, kTraceDirectory},
    {"tracedump", ABI_S_IFREG | 0400, kRoot},
};
constexpr uint32_t kTraceFileMode = ABI_S_IFREG | 0600;

// --- The files that are everyone's.

// Width of the column of names, indentation included.
constexpr int kNameWidth = 34;

const char* traced_flag(int flags) {
  if (flags & KMC_NOTRACE) return "never";
  if (flags & KMC_TRACED) return "running";
  return flags & KMC_EVER_TRACED ? "stopped" : "off";
}

void print_cache(kmem_cache* cache, unsigned depth, Text& text) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  const int indent = static_cast<int>(2 * depth);
  text.print("%*s%-*s S %8lu %13lu %13lu %9lu %12lu %12lu %s\n", indent, "", kNameWidth - indent,
             kmem_cache_name(cache), stats.object_size, stats.total_bytes, stats.live * stats.object_size, stats.live,
             stats.allocations, stats.frees, traced_flag(kmem_cache_flags(cache)));
}

// Calls visit(cache) for each cache that is not destroyed.
template <typename Visit>
void for_each_cache(Visit visit) {
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    if (!kmem_cache_is_zombie(cache)) visit(cache);
  }
}

// The arena, its caches, and the arenas that import from it. As deep as arenas import from each other: three or four.
void print_arena_tree(struct arena* arena, unsigned depth, Text& text) {
  struct arena_stats stats;
  arena_stats(arena, &stats);
  const int indent = static_cast<int>(2 * depth);
  text.print("%*s%-*s A %8lu %13lu %13lu %9lu %12lu %12lu %s\n", indent, "", kNameWidth - indent, arena_name(arena),
             stats.quantum, stats.total_bytes, stats.direct_bytes, stats.direct_live, stats.direct_allocations,
             stats.direct_frees, traced_flag(arena_flags(arena)));
  for_each_cache([&](kmem_cache* cache) {
    if (kmem_cache_source(cache) == arena) print_cache(cache, depth + 1, text);
  });
  for (struct arena* other = arena_next(nullptr); other; other = arena_next(other)) {
    if (arena_source(other) == arena) print_arena_tree(other, depth + 1, text);
  }
}

void print_kmemstat(Text& text) {
  text.print("%-*s T %8s %13s %13s %9s %12s %12s %s\n", kNameWidth, "NAME", "OBJSIZE", "TOTAL", "ALLOCATED", "LIVE",
             "ALLOCS", "FREES", "TRACED");
  for (struct arena* arena = arena_next(nullptr); arena; arena = arena_next(arena)) {
    if (!arena_source(arena)) print_arena_tree(arena, 0, text);
  }
}

// "left": not any more, but objects from then are out, and checked when they are freed.
const char* checked(const kmem_cache* cache, const struct kmem_cache_stats& stats) {
  if (!kmem_cache_can_be_checked(cache)) return "never";
  return stats.checked ? "on" : stats.checked_out > 0 ? "left" : "off";
}

void print_slab_stats(Text& text) {
  text.print("%-32s %8s %8s %9s %9s %9s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s %-7s %8s %8s\n", "NAME", "OBJSIZE",
             "SLABS", "OBJECTS", "LIVE", "MAGROUNDS", "MAGSIZE", "FULLMAGS", "EMPTYMAG", "BUCKETS", "HASHED", "FAILED",
             "RESIZES", "CONTEND", "SURPLUS", "REAPED", "CHECKED", "REPORTS", "QUARANT");
  for_each_cache([&](kmem_cache* cache) {
    struct kmem_cache_stats stats;
    kmem_cache_stats(cache, &stats);
    text.print("%-32s %8lu %8lu %9lu %9lu %9lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %-7s %8lu %8lu\n",
               kmem_cache_name(cache), stats.object_size, stats.slabs, stats.objects_in_slabs, stats.live,
               stats.magazine_rounds, stats.magazine_size, stats.depot_full, stats.depot_empty, stats.hash_buckets,
               stats.hash_items, stats.failures, stats.magazine_resizes, stats.depot_contention, stats.depot_surplus,
               stats.depot_reaped, checked(cache, stats), stats.reports, stats.quarantined);
  });
}

void print_arena_stats(Text& text) {
  for (struct arena* arena = arena_next(nullptr); arena; arena = arena_next(arena)) {
    struct arena_stats stats;
    arena_stats(arena, &stats);
    const struct arena* source = arena_source(arena);
    text.print("%s source %s quantum %lu total %lu allocated %lu imported %lu live %lu allocations %lu frees %lu ",
               arena_name(arena), source ? arena_name(source) : "-", stats.quantum, stats.total_bytes,
               stats.allocated_bytes, stats.imported_bytes, stats.live, stats.allocations, stats.frees);
    text.print("failures %lu segments %lu buckets %lu hashed %lu direct %lu spans %lu", stats.failures, stats.segments,
               stats.hash_buckets, stats.hash_items, stats.direct_bytes, stats.span_bytes);
    if (stats.tag_bytes > 0) text.print(" tags %lu", stats.tag_bytes);
    text.print("\n");
    for (unsigned power = 0; power < 64; power++) {
      if (stats.free_segments[power] == 0) continue;
      text.print("  free segments from %lu bytes: %lu\n", uint64_t{1} << power, stats.free_segments[power]);
    }
  }
}

void print_free(Text& text) {
  const MemoryTotals totals = memory_totals();
  text.print("total %lu\nused %lu\nfree %lu\n", totals.total, totals.total - totals.free, totals.free);
}

// --- The tracer's files.

// The state of every trace, which may grow while it is asked for.
Result<void> print_trace_status(Text& text) {
  for (size_t size = TRY(trace_status(nullptr, 0)) + kPageSize;;) {
    auto* buffer = static_cast<char*>(kmalloc(size, KM_SLEEP));
    if (!buffer) return Errno::ENOMEM;
    Result<size_t> length = trace_status(buffer, size);
    const bool all = length && *length < size;
    if (all) text.append({buffer, *length});
    kfree(buffer);
    if (all) return {};
    size = TRY(std::move(length))
    +kPageSize;
  }
}

// An open file of kmemtrace/NAME.
struct OpenTrace {
  TraceSource source;                     // held
  TraceDump* dump = nullptr;              // if it was opened for reading
  Mutex reading{LockRank::kDeviceMutex};  // a dump is read by one at a time
};

class MemDevice final : public TableDevice {
 public:
  constexpr MemDevice() : TableDevice("mem", kTable) {}

  // Nothing can be made here; what a shell's `>` did not find gets the message of the walk.
  Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t, uint32_t, const Credentials&) override {
    if (directory.qid.path == kTraceDirectory) return no_such_trace(name);
    return Errno::EPERM;
  }

  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    if (chan.qid.directory) return Errno::EISDIR;
    if (!is_dynamic(chan)) {
      if (!chan.state) return Errno::EACCES;
      if (chan.qid.path == kTraceDump) return trace_binary_read(binary_of(chan), buffer, size, offset);
      return text_of(chan).read(buffer, size, offset);
    }
    OpenTrace& open = open_of(chan);
    if (!open.dump) return Errno::EACCES;
    const MutexGuard guard(open.reading);
    return trace_dump_read(open.dump, buffer, size, offset);
  }

  Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    if (!is_dynamic(chan) && chan.qid.path != kTraceCtl) {
      return fail(Errno::EACCES, "%s is only read: commands go to the files of kmemtrace", kTable[chan.qid.path].name);
    }
    const std::string_view text(buffer, size);
    TRY(check_command_text(text, "start [KEY=N ...], stop, reset, mark, check, nocheck or scan, one a line"));
    if (is_dynamic(chan)) {
      TRY(trace_command(open_of(chan).source, text));
    } else {
      TRY(trace_command_all(text));
    }
    return size;
  }

  void close(Chan& chan) override {
    if (!chan.state) return;
    if (chan.qid.path == kTraceDump) {
      trace_binary_close(binary_of(chan));
    } else if (!is_dynamic(chan)) {
      Text::destroy(&text_of(chan));
    } else if (chan.is_open) {
      close_trace(open_of(chan));
    } else {
      node_of(chan).release();
    }
  }

  Result<void> clone_state(Chan& chan, Chan& copy) override {
    copy.state = chan.state;
    if (is_dynamic(chan)) node_of(chan).hold();
    return {};
  }

 protected:
  Result<void> open_file(Chan& chan, uint32_t flags) override {
    const bool for_reading = (flags & ABI_O_ACCMODE) != ABI_O_WRONLY;
    if (is_dynamic(chan)) return open_trace(chan, for_reading);
    if (!for_reading) return {};
    if (chan.qid.path == kTraceDump) {
      chan.state = TRY(trace_binary_open());
      return {};
    }
    Text* const text = TRY(Text::create());
    Result<void> made = fill(chan.qid.path, *text);
    if (made && text->failed()) made = Errno::ENOMEM;
    if (!made) {
      Text::destroy(text);
      return made;
    }
    chan.state = text;
    return {};
  }

  Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan) override {
    if (directory.qid.path != kTraceDirectory) return Errno::ENOENT;
    const TraceSource source = TraceSource::find(name);
    if (!source) return no_such_trace(name);
    chan.qid = {.path = path_of(source), .version = 0, .directory = false};
    chan.state = source.word();
    return {};
  }

  Result<void> dynamic_stat(Chan& chan, abi_stat& stat) override {
    fill_stat(stat, chan.qid.path, kTraceFileMode);
    return {};
  }

  Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry, char* name) override {
    if (directory.qid.path != kTraceDirectory) return Errno::ENOENT;
    for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
      if (source.is_zombie() || index-- > 0) continue;
      fill_stat(entry, path_of(source), kTraceFileMode);
      format(name, 256, "%s", source.name());
      source.release();
      return {};
    }
    return Errno::ENOENT;
  }

 private:
  static Text& text_of(Chan& chan) { return *static_cast<Text*>(chan.state); }
  static TraceBinaryDump* binary_of(Chan& chan) { return static_cast<TraceBinaryDump*>(chan.state); }
  static TraceSource node_of(Chan& chan) { return TraceSource::from_word(chan.state); }
  static OpenTrace& open_of(Chan& chan) { return *static_cast<OpenTrace*>(chan.state); }

  static Errno no_such_trace(std::string_view name) {
    return fail(Errno::ENOENT, "no cache or arena is called %.*s: `ls '#mem/kmemtrace'` names them",
                static_cast<int>(name.size()), name.data());
  }

  // From the name, which is its own as long as it exists (FNV-1a), not from its address, which is nobody's
  // business.
  static uint64_t path_of(TraceSource source) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char* c = source.name(); *c; c++) hash = (hash ^ static_cast<uint8_t>(*c)) * 0x100000001b3;
    return (hash >> 1) | kDynamic;
  }

  static Result<void> open_trace(Chan& chan, bool for_reading) {
    void* memory = kmalloc(sizeof(OpenTrace), KM_SLEEP);
    if (!memory) return Errno::ENOMEM;
    auto* open = new (memory) OpenTrace{node_of(chan)};
    if (for_reading) {
      Result<TraceDump*> dump = trace_dump_open(open->source);
      if (!dump) {
        kfree(open);
        return dump.error();
      }
      open->dump = *dump;
    }
    chan.state = open;
    return {};
  }

  static void close_trace(OpenTrace& open) {
    if (open.dump) trace_dump_close(open.dump);
    open.source.release();
    kfree(&open);
  }

  static Result<void> fill(uint64_t file, Text& text) {
    switch (file) {
      case kKmemstat:
        print_kmemstat(text);
        return {};
      case kSlabStats:
        print_slab_stats(text);
        return {};
      case kArenaStats:
        print_arena_stats(text);
        return {};
      case kFree:
        print_free(text);
        return {};
      case kTraceCtl:
        return print_trace_status(text);
      default:
        return Errno::EACCES;
    }
  }
};

constinit MemDevice device;

}  // namespace

void mem_device_init() {
  device_register(&device);
}
