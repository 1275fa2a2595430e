#include "world.h"

#include <asm/prctl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "arch/x86_64/context.h"
#include "arch/x86_64/frames.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/time.h"
#include "arena.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/sleep.h"
#include "intern/current_context.h"
#include "intern/shared_tables.h"
#include "intern/stack_hints_impl.h"
#include "intern/trace_memory.h"
#include "pages.h"
#include "slab_trace.h"
#include "trace/control/control.h"

__thread struct host_cpu host_cpu = {};
StackTable trace_stacks;
ContextTable trace_contexts;

namespace {

thread_local uint64_t stack_low, stack_high;
// The CPU's data, which code reaches through GS, as in the kernel.
thread_local Cpu this_thread{};
// A task whose cached context is ContextId{1}, the first valid ID.
thread_local TaskHead this_task = [] {
  TaskHead task = {};
  task.trace_context = (uint64_t{1} << 32) + 1;
  return task;
}();
MemoryRange memory;
BootInfo boot;

}  // namespace

void world_start(uint64_t bytes) {
  if (mmap(reinterpret_cast<void*>(kDirectMapBase), bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
           0) == MAP_FAILED) {
    panic("no memory");
  }
  memory = {{kPageSize}, bytes - kPageSize};
  boot.usable = {&memory, 1};
  boot.highest = {bytes};
  memory_init();
  world_become_cpu(0);
  trace_memory_init(bytes / 16);
  trace_memory_begin(SLAB_OS_MAX_CPUS);
  stack_hints_open(SLAB_OS_MAX_CPUS);
  if (!trace_stacks.open()) panic("no memory for the stack table");
}

void world_become_cpu(unsigned id) {
  host_cpu.id = id;
  this_thread.self = &this_thread;
  this_thread.id = CpuId{id};
  this_thread.current = &this_task;
  if (syscall(SYS_arch_prctl, ARCH_SET_GS, &this_thread) != 0) panic("GS cannot be set");
  pthread_attr_t attributes;
  void* low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  stack_low = reinterpret_cast<uint64_t>(low);
  stack_high = stack_low + size;
  // The tracer walks the frames of a stack of the size of a kernel task's.
  this_thread.kernel_stack =
      reinterpret_cast<uint64_t>(__builtin_frame_address(0)) / kKernelStackSize * kKernelStackSize +
      kKernelStackSize;
}

void world_trace(kmem_cache* cache) {
  TraceTable* const table = TraceTable::create(SLAB_OS_MAX_CPUS);
  if (!table) panic("no memory for a table");
  table->set_options({});
  *kmem_cache_trace_slot(cache) = reinterpret_cast<trace_table*>(table);
  const unsigned self = host_cpu.id;
  for (host_cpu.id = 0; host_cpu.id < SLAB_OS_MAX_CPUS; host_cpu.id++) {
    kmem_cache_cpu_flags(cache, KMC_TRACED | KMC_EVER_TRACED, 0);
  }
  host_cpu.id = self;
}

// ---- Functions that the tracer calls.

size_t walk_kernel_stack(uint64_t frame_pointer, uint64_t* program_counters, size_t max) {
  uint64_t low = stack_low;
  size_t n = 0;
  while (n < max && frame_pointer >= low && frame_pointer + 16 <= stack_high &&
         (frame_pointer & 7) == 0) {
    const auto* frame = reinterpret_cast<const uint64_t*>(frame_pointer);
    if (frame[1] == 0) break;
    program_counters[n++] = frame[1];
    low = frame_pointer + 16;
    frame_pointer = frame[0];
  }
  return n;
}

CurrentContext trace_find_context() {
  return {.id = ContextId{1}, .caller = TraceCaller::kNone};
}
// Threads of the host make no system calls to this kernel, so the tracer never asks for the caller
// of a system call.
void trace_find_caller(TaskHead&) {
  panic("a thread has no caller");
}
uint32_t trace_current_pid() {
  return 0;
}
trace_table** TraceSource::trace_slot() const {
  return kmem_cache_trace_slot(cache());
}
void slab_trace_destroy(kmem_cache*) {}
void arena_trace_destroy(struct arena*) {}
void slab_trace_entering(kmem_cache*, const char*) {}
void slab_trace_entered(kmem_cache*) {}
void arena_trace_entering(struct arena*, const char*) {}
void arena_trace_entered(struct arena*) {}
bool slab_os_may_sleep() {
  return true;
}
bool slab_os_name_taken(const char* name) {
  return arena_name_taken(name) != 0;
}
void slab_trace_report_live(kmem_cache*, uint64_t) {}
// The range of the allocator's code is empty, so that the tracer removes no frames from a stack. A
// recorded stack already begins with the allocator's caller.
extern const char allocator_text_start[1] = {0}, allocator_text_end[1] = {0};
void random_fill(void* buffer, size_t size) {
  __builtin_memset(buffer, 0x5a, size);
}
std::atomic<uint64_t> coarse_time{1};

// ---- slab_os.h, spinlock.h, log.h, boot.h

unsigned cpu_count() {
  return SLAB_OS_MAX_CPUS;
}
Cpu& cpu(CpuId) {
  panic("CPUs do not know each other here");
}
void Spinlock::lock() {
  while (!try_lock()) asm volatile("pause");
}
bool Spinlock::try_lock() {
  return owner_.load(std::memory_order_relaxed) == 0 &&
         owner_.exchange(1, std::memory_order_acquire) == 0;
}
void Spinlock::unlock() {
  owner_.store(0, std::memory_order_release);
}
bool Spinlock::held() const {
  return owner_.load(std::memory_order_relaxed) != 0;
}

// No thread sleeps here: the tracer sleeps only to wait for dumps, and there are none.
Result<void> WaitQueue::sleep(Spinlock&, bool, Nanoseconds) {
  panic("nobody would end this sleep");
}
void WaitQueue::wake_one() {}
void WaitQueue::wake_all() {}

bool trace_in_interrupt(const Cpu&) {
  return false;
}
Result<void> trace_users_add(TableUser&) {
  return {};
}
void trace_users_drop(TableUser&) {}
RetainingStopped::RetainingStopped() = default;
RetainingStopped::~RetainingStopped() = default;

unsigned slab_os_cpu_count() {
  return SLAB_OS_MAX_CPUS;
}
arena* slab_os_page_arena() {
  return page_arena;
}
arena* slab_os_metadata_arena() {
  return base_arena;
}
void* slab_os_pages_alloc(arena* arena, size_t size, int flags) {
  return arena_alloc(arena, size, flags);
}
void slab_os_pages_free(arena* arena, void* pages, size_t size) {
  arena_free(arena, pages, size);
}
size_t slab_os_pages_align(const arena* arena) {
  return arena_quantum(arena);
}
void slab_os_pages_set_slab(void* pages, size_t size, kmem_slab* slab) {
  for (size_t i = 0; i < size / kPageSize; i++) page_of(pages)[i].slab = slab;
}
kmem_slab* slab_os_page_slab(const void* object) {
  const Page* const page = page_of(object);
  return page ? page->slab : nullptr;
}
void slab_os_lock_init(slab_os_lock* lock, slab_os_rank) {
  static_assert(sizeof(Spinlock) <= sizeof(slab_os_lock));
  new (lock) Spinlock(LockRank::kSlabCache);
}
void slab_os_lock_acquire(slab_os_lock* lock) {
  reinterpret_cast<Spinlock*>(lock)->lock();
}
bool slab_os_lock_try(slab_os_lock* lock) {
  return reinterpret_cast<Spinlock*>(lock)->try_lock();
}
void slab_os_lock_release(slab_os_lock* lock) {
  reinterpret_cast<Spinlock*>(lock)->unlock();
}
bool slab_os_check_panics() {
  return false;
}

bool slab_os_check_new_cache(const char*) {
  return false;
}
void slab_os_note_place(slab_os_place*, const void*) {}
void slab_os_log_place(const char*, const char*, const slab_os_place*) {}
void slab_os_on_each_cpu(void (*)(void*), void*) {
  panic("nothing here stops other CPUs");
}
void host_interrupt_deliver(void) {}

void klog(const char*, ...) {}
void slab_os_log(const char*, ...) {}

static void end(const char* pattern, va_list arguments) {
  vfprintf(stderr, pattern, arguments);
  fputc('\n', stderr);
  abort();
}
void panic(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  end(pattern, arguments);
  abort();
}
void slab_os_panic(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  end(pattern, arguments);
  abort();
}
const BootInfo& boot_info() {
  return boot;
}
