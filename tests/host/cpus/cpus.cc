#include "cpus.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "arch/x86_64/paging.h"
#include "arena.h"
#include "core/boot.h"
#include "core/log.h"
#include "core/spinlock.h"
#include "pages.h"
#include "slab_trace.h"

namespace {

thread_local uint64_t held_ranks = 0;

std::atomic<unsigned> page_failures{0}, depot_contention{0};
std::atomic<bool> check_caches{false};
std::array<MemoryRange, 2> ranges;
BootInfo boot;
std::mutex log_mutex;
std::string log_text;

}  // namespace

void host::memory_start(uint64_t bytes) {
  host::cpus_start();
  // Memory has two ranges with a hole between them. The page at physical address 0 is inaccessible,
  // because memory_init() must not use it.
  const uint64_t hole = 64 * kPageSize, second = bytes / 4 + hole;
  void* const memory =
      mmap(reinterpret_cast<void*>(kDirectMapBase), bytes + hole, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory == MAP_FAILED) abort();
  mprotect(direct_map({bytes / 4}), hole, PROT_NONE);
  mprotect(direct_map({0}), kPageSize, PROT_NONE);
  ranges = {MemoryRange{{0}, bytes / 4}, MemoryRange{{second}, bytes - bytes / 4}};
  // The first range begins after page 0. memory_init() puts the page descriptors at the start of
  // the first range, or of the second range if the first one is too small.
  ranges[0] = {{kPageSize}, bytes / 4 - kPageSize};
  boot.usable = ranges;
  boot.highest = {bytes + hole};
  memory_init();
}

void host::fail_pages(unsigned percent) {
  page_failures = percent;
}

void host::contend(unsigned percent) {
  depot_contention = percent;
}

void host::check_new_caches(bool check) {
  check_caches = check;
}

std::string host::take_log() {
  std::lock_guard guard(log_mutex);
  return std::exchange(log_text, {});
}

// ---- slab_os.h

unsigned slab_os_cpu_count() {
  return SLAB_OS_MAX_CPUS;
}

struct arena* slab_os_page_arena() {
  return page_arena;
}
struct arena* slab_os_metadata_arena() {
  return base_arena;
}

void* slab_os_pages_alloc(struct arena* arena, size_t size, int flags) {
  thread_local std::minstd_rand random(host_cpu.id + 1);
  if (random() % 100 < page_failures) return nullptr;
  return arena_span_alloc(arena, size, flags);
}
void slab_os_pages_free(struct arena* arena, void* pages, size_t size) {
  arena_span_free(arena, pages, size);
}
size_t slab_os_pages_align(const struct arena* arena) {
  return arena_quantum(arena);
}
void slab_os_pages_set_slab(void* pages, size_t size, kmem_slab* slab) {
  for (size_t i = 0; i < size / kPageSize; i++) page_of(pages)[i].slab = slab;
}
kmem_slab* slab_os_page_slab(const void* object) {
  const Page* const page = page_of(object);
  return page ? page->slab : nullptr;
}

void slab_os_lock_init(slab_os_lock* lock, slab_os_rank rank) {
  constexpr std::array kRanks = {LockRank::kSlabCacheList, LockRank::kSlabDepot,
                                 LockRank::kSlabCache};
  static_assert(sizeof(Spinlock) <= sizeof(slab_os_lock));
  new (lock) Spinlock(kRanks[rank]);
}
void slab_os_lock_acquire(slab_os_lock* lock) {
  reinterpret_cast<Spinlock*>(lock)->lock();
}
bool slab_os_lock_try(slab_os_lock* lock) {
  thread_local std::minstd_rand random(host_cpu.id + 1);
  if (random() % 100 < depot_contention) return false;
  return reinterpret_cast<Spinlock*>(lock)->try_lock();
}
void slab_os_lock_release(slab_os_lock* lock) {
  reinterpret_cast<Spinlock*>(lock)->unlock();
}

bool slab_os_may_sleep() {
  return interrupts_enabled() && held_ranks == 0;
}

bool slab_os_check_panics() {
  return false;
}

bool slab_os_check_new_cache(const char*) {
  return check_caches;
}

void slab_os_note_place(slab_os_place* place, const void*) {
  *place = {};
  place->cpu = static_cast<uint16_t>(host_cpu.id);
  place->depth = 1;
  place->frames[0] = host_cpu.place;
}

void slab_os_log_place(const char* prefix, const char* what, const slab_os_place* place) {
  if (place->depth > 0) slab_os_log("%s %s at place %u", prefix, what, place->frames[0]);
}

bool slab_os_name_taken(const char* name) {
  return arena_name_taken(name) != 0;
}

// Hooks that do nothing. These definitions are weak, so a test that traces arenas or caches can
// define its own hooks.
[[gnu::weak]] void* arena_trace_alloc(trace_table*, void* address, size_t, const void*,
                                      uint64_t saved) {
  slab_os_irq_restore(saved);
  return address;
}
[[gnu::weak]] void arena_trace_free(trace_table*, void*, uint64_t saved) {
  slab_os_irq_restore(saved);
}
[[gnu::weak]] void arena_trace_destroy(struct arena*) {}
[[gnu::weak]] void arena_trace_entering(struct arena*, const char*) {}
[[gnu::weak]] void arena_trace_entered(struct arena*) {}
[[gnu::weak]] void slab_trace_entering(kmem_cache*, const char*) {}
[[gnu::weak]] void slab_trace_entered(kmem_cache*) {}

void slab_os_log(const char* pattern, ...) {
  char line[200];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  klog("%s", line);
}

void slab_os_panic(const char* pattern, ...) {
  char line[200];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  panic("%s", line);
}

// ---- spinlock.h, log.h, boot.h

void Spinlock::lock() {
  ASSERT(!interrupts_enabled());
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(rank_);
  if (held_ranks & (bit | (bit - 1)))
    panic("a lock of rank %u is taken while %lx are held", unsigned(rank_), held_ranks);
  uint32_t free = 0;
  while (!owner_.compare_exchange_weak(free, host_cpu.id + 1, std::memory_order_acquire)) {
    free = 0;
    sched_yield();
  }
  held_ranks |= bit;
}

bool Spinlock::try_lock() {
  ASSERT(!interrupts_enabled());
  uint32_t free = 0;
  if (!owner_.compare_exchange_strong(free, host_cpu.id + 1, std::memory_order_acquire))
    return false;
  held_ranks |= uint64_t{1} << static_cast<unsigned>(rank_);
  return true;
}

void Spinlock::unlock() {
  ASSERT(!interrupts_enabled() && held());
  held_ranks &= ~(uint64_t{1} << static_cast<unsigned>(rank_));
  owner_.store(0, std::memory_order_release);
}

bool Spinlock::held() const {
  return owner_ == host_cpu.id + 1;
}

void klog(const char* pattern, ...) {
  char line[200];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  std::lock_guard guard(log_mutex);
  log_text += line;
  log_text += '\n';
}

void panic(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  fputs("panic: ", stderr);
  vfprintf(stderr, pattern, arguments);
  fputs("\n", stderr);
  va_end(arguments);
  abort();
}

const BootInfo& boot_info() {
  return boot;
}

// ---- CPUs are threads, and signals interrupt them. ThreadSanitizer delays signals, so programs
// under ThreadSanitizer use sections.cc instead of this part of the file.

#ifndef __SANITIZE_THREAD__
__thread struct host_cpu host_cpu = {};

namespace {

constexpr int kInterruptSignal = SIGUSR1;

// The state of a CPU that other CPUs access, too.
struct Online {
  std::atomic<bool> online{false};
  std::atomic<pthread_t> thread{};
  std::atomic<bool> called{false};  // the CPU still has to call call_function
};
std::array<Online, SLAB_OS_MAX_CPUS> cpus;
std::mutex call_mutex, power_mutex;
void (*call_function)(void*);
void* call_argument;

std::atomic<void (*)()> interrupt_handler{nullptr};
std::atomic<uint64_t> taken{0};
void on_signal(int) {
  const int saved_errno = errno;
  host_cpu.pending = 1;
  if (!host_cpu.interrupts_off) host_interrupt_deliver();
  errno = saved_errno;
}

// A thread takes interrupts only while it is a CPU. At other times the thread may be inside the
// host's malloc, which the signal handler may call too. A CPU without a thread is offline.
// slab_os_on_each_cpu() itself calls the function for each offline CPU (call_for_offline()).
void accept_interrupts(bool accept) {
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, kInterruptSignal);
  pthread_sigmask(accept ? SIG_UNBLOCK : SIG_BLOCK, &interrupts, nullptr);
}

void go_online(unsigned id) {
  {
    std::lock_guard guard(power_mutex);
    host_cpu.id = id;
    cpus[id].thread = pthread_self();
    cpus[id].online = true;
  }
  accept_interrupts(true);
}

// Blocks the interrupt signal for this thread and for threads that it creates later. Then executes
// the call that slab_os_on_each_cpu() has requested of this CPU, if any.
void go_offline() {
  accept_interrupts(false);
  std::lock_guard guard(power_mutex);
  cpus[host_cpu.id].online = false;
  if (!cpus[host_cpu.id].called) return;
  host_cpu.pending = 1;
  host_interrupt_deliver();
}

// Calls the function on this thread as CPU `id`, which has no thread.
void call_for_offline(unsigned id, void (*function)(void*), void* argument) {
  const InterruptsOff off;
  const unsigned self = std::exchange(host_cpu.id, id);
  function(argument);
  host_cpu.id = self;
}

}  // namespace

void host::cpus_start() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(kInterruptSignal, &action, nullptr);
  go_online(0);
}

void host_interrupt_deliver(void) {
  while (host_cpu.pending) {
    host_cpu.pending = 0;
    host_cpu.interrupts_off = 1;
    Online& self = cpus[host_cpu.id];
    if (self.called) {
      call_function(call_argument);
      self.called = false;
    }
    if (auto* handler = interrupt_handler.load()) {
      taken.fetch_add(1, std::memory_order_relaxed);
      handler();
      thread_local std::minstd_rand random(host_cpu.id + 1);
      host_cpu.sections_left = 1 + random() % 64;
    }
    host_cpu.interrupts_off = 0;
  }
}

void host::run_cpus(unsigned count, const std::function<void(unsigned)>& body,
                    void (*interrupt)()) {
  go_offline();
  std::atomic<unsigned> running{count}, ready{0};
  std::vector<std::thread> threads;
  interrupt_handler = interrupt;
  for (unsigned id = 0; id < count; id++) {
    threads.emplace_back([&, id] {
      go_online(id);
      for (ready++; ready < count;) sched_yield();
      host_cpu.sections_left = interrupt ? 1 : 0;
      body(id);
      host_cpu.sections_left = 0;
      go_offline();
      running--;
    });
  }
  std::minstd_rand random(1);
  while (running > 0) {
    if (interrupt && ready == count) {
      pthread_kill(threads[random() % count].native_handle(), kInterruptSignal);
      for (unsigned spin = random() % 2000; spin > 0; spin--) asm volatile("pause");
    } else {
      sched_yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  interrupt_handler = nullptr;
  go_online(0);
}

uint64_t host::interrupts_taken() {
  return taken;
}

void slab_os_on_each_cpu(void (*function)(void*), void* argument) {
  ASSERT(interrupts_enabled() && held_ranks == 0);
  std::lock_guard guard(call_mutex);
  call_function = function;
  call_argument = argument;
  {
    std::lock_guard power(power_mutex);
    for (unsigned id = 0; id < cpus.size(); id++) {
      if (!cpus[id].online) {
        call_for_offline(id, function, argument);
        continue;
      }
      cpus[id].called = true;
      pthread_kill(cpus[id].thread, kInterruptSignal);
    }
  }
  for (Online& cpu : cpus) {
    while (cpu.called) sched_yield();
  }
}
#endif
