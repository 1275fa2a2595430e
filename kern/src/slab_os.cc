// The kernel's side of slab_os.h.
#include "slab_os.h"

#include <cstdarg>
#include <iterator>
#include <new>

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/frames.h"
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "arena.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/ref.h"
#include "core/spinlock.h"
#include "core/symbols.h"
#include "core/task_head.h"
#include "lib/format.h"
#include "lib/string.h"
#include "pages.h"
#include "slab_trace.h"

static_assert(sizeof(Spinlock) <= sizeof(slab_os_lock));
static_assert(alignof(Spinlock) <= alignof(slab_os_lock));
static_assert(offsetof(Cpu, id) == 32, "slab_os_cpu");

namespace {

Spinlock& spinlock_of(slab_os_lock* lock) RETURN_CAPABILITY(lock) {
  return *reinterpret_cast<Spinlock*>(lock);
}

constexpr LockRank rank_of(slab_os_rank rank) {
  switch (rank) {
    case SLAB_OS_RANK_LIST:
      return LockRank::kSlabCacheList;
    case SLAB_OS_RANK_DEPOT:
      return LockRank::kSlabDepot;
    case SLAB_OS_RANK_CACHE:
      return LockRank::kSlabCache;
  }
  __builtin_unreachable();
}

}  // namespace

void slab_os_lock_init(slab_os_lock* lock, slab_os_rank rank) {
  new (lock) Spinlock(rank_of(rank));
}

void slab_os_lock_acquire(slab_os_lock* lock) {
  ASSERT(!this_cpu().in_nmi);
  spinlock_of(lock).lock();
}
bool slab_os_lock_try(slab_os_lock* lock) {
  return spinlock_of(lock).try_lock();
}
void slab_os_lock_release(slab_os_lock* lock) {
  spinlock_of(lock).unlock();
}

bool slab_os_may_sleep() {
  const bool interrupts = interrupts_enabled();
  const InterruptsOff stays_on_this_cpu;
  const Cpu& cpu = this_cpu();
  if (cpu.held_locks != 0 || cpu.interrupt_depth != 0) return false;
  // A CPU's start-up code runs with interrupts off as the CPU's idle task, whose id is 0. This code
  // may use KM_SLEEP.
  if (!cpu.current || cpu.current->id == 0) return true;
  return interrupts && cpu.preempt_off == 0;
}

// Counts all CPUs of the machine, because caches are made before the other CPUs are started.
unsigned slab_os_cpu_count() {
  return acpi_info().cpu_count;
}

void slab_os_on_each_cpu(void (*function)(void*), void* argument) {
  on_each_cpu(function, argument);
}

arena* slab_os_page_arena() {
  return page_arena;
}
arena* slab_os_metadata_arena() {
  return base_arena;
}

void* slab_os_pages_alloc(arena* arena, size_t size, int flags) {
  return arena_span_alloc(arena, size, flags);
}
void slab_os_pages_free(arena* arena, void* pages, size_t size) {
  arena_span_free(arena, pages, size);
}
size_t slab_os_pages_align(const arena* arena) {
  return arena_quantum(arena);
}

void slab_os_pages_set_slab(void* pages, size_t size, kmem_slab* slab) {
  Page* const first = page_of(pages);
  for (size_t i = 0; i < size / kPageSize; i++) first[i].slab = slab;
}

kmem_slab* slab_os_page_slab(const void* object) {
  const Page* const page = page_of(object);
  return page ? page->slab : nullptr;
}

// True if the option `check=NAME[,NAME…]` of the kernel command line lists the name, or `all`.
bool slab_os_check_new_cache(const char* name) {
#ifdef CONFIG_SLAB_CHECK_ALL
  static_cast<void>(name);
  return true;
#else
  size_t length = 0;
  const char* rest = boot_option("check", &length);
  const size_t name_length = strlen(name);
  while (rest && length > 0) {
    size_t word = 0;
    while (word < length && rest[word] != ',') word++;
    if (word == name_length && strncmp(rest, name, word) == 0) return true;
    if (word == 3 && strncmp(rest, "all", word) == 0) return true;
    if (word < length) word++;
    rest += word;
    length -= word;
  }
  return false;
#endif
}

bool slab_os_check_panics() {
  size_t length = 0;
  return boot_option("check_panic", &length) != nullptr;
}

void slab_os_note_place(slab_os_place* place, const void* frame) {
  const Cpu& cpu = this_cpu();
  const TaskHead* const task = cpu.current;
  const bool interrupt = cpu.interrupt_depth > 0 && cpu.interrupt_vector >= kVectorIrqBase;
  const char* const name = interrupt ? interrupt_name(cpu.interrupt_vector)
                           : task    ? task->name
                                     : "boot";
  *place = {};
  place->time = coarse_milliseconds().value;
  place->pid = task && !interrupt ? task->pid : 0;
  place->cpu = static_cast<uint16_t>(cpu.id);
  place->interrupt = interrupt;
  memcpy(place->name, name, strnlen(name, sizeof(place->name) - 1));
  uint64_t frames[kAllocatorFrames + SLAB_OS_PLACE_FRAMES];
  const size_t count =
      walk_kernel_stack(reinterpret_cast<uint64_t>(frame), frames, std::size(frames));
  size_t first = 0;
  while (first < count && in_allocator(frames[first])) first++;
  for (size_t i = first; i < count && place->depth < SLAB_OS_PLACE_FRAMES; i++) {
    place->frames[place->depth++] = static_cast<uint32_t>(frames[i] - kKernelImageBase);
  }
}

void slab_os_log_place(const char* prefix, const char* what, const slab_os_place* place) {
  if (place->name[0] == '\0') return;
  // KernelAddressSanitizer forbids format() to read an audit in a slab, so format() gets a copy.
  const slab_os_place copy = *place;
  place = &copy;
  constexpr int kNameLength = SLAB_OS_PLACE_NAME - 1;  // a bad write may have hit the name's NUL
  char who[64];
  if (place->pid != 0) {
    format(who, sizeof(who), "pid %u %.*s", place->pid, kNameLength, place->name);
  } else {
    format(who, sizeof(who), "%s %.*s", place->interrupt ? "irq" : "task", kNameLength,
           place->name);
  }
  klog("%s %s by %s on CPU %u, %lu ms ago:", prefix, what, who, place->cpu,
       coarse_milliseconds().value - place->time);
  for (unsigned i = 0; i < place->depth && i < SLAB_OS_PLACE_FRAMES; i++) {
    char symbol[200];
    symbol_format(symbol, sizeof(symbol), kKernelImageBase + place->frames[i]);
    klog("%s     %s", prefix, symbol);
  }
}

bool slab_os_name_taken(const char* name) {
  return arena_name_taken(name) != 0 || ref_class_find(name);
}

void slab_os_log(const char* pattern, ...) {
  char line[160];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  klog("%s", line);
}

void slab_os_panic(const char* pattern, ...) {
  char line[160];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  panic("%s", line);
}
