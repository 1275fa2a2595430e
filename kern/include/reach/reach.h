// What nobody can reach any more: the interface for the rest of the kernel. The theory is in
// src/reach/reach.cc; docs/unreachable.md explains it for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/task_head.h"
#include "lib/result.h"
#include "lib/units.h"
#include "slab.h"

// What is told which memory is in use. Passed to those who know of memory that no pointer leads to;
// while all CPUs are stopped, with interrupts off: nothing may be allocated or freed, no sleeping
// lock taken. Spinlocks are free, since nobody is stopped while he holds one.
class ReachVisitor {
 public:
  // What `address` lies in is in use, and what it leads to.
  virtual void object(const void* address) = 0;
  // The same for each word from `from` to before `to`, multiples of eight, that is an address.
  virtual void words(const void* from, const void* to) = 0;
  // The same for the kernel stack of a task, from its saved stack pointer to its end: here a word
  // may be the physical address of a page too.
  virtual void stack(const TaskHead& task, uint64_t from, uint64_t to) = 0;
  // A page of physical memory is in use.
  virtual void page(PhysAddr page) = 0;
  // The same for a page table. False if it is none or has been walked: the caller does not look
  // into it.
  virtual bool table(PhysAddr page) = 0;
  // What `address` lies in has no pointers, or its owner follows them: it is not looked through.
  // Before anything is marked (ReachProvider::hide).
  virtual void hide(const void* address) = 0;

 protected:
  ~ReachVisitor() = default;
};

// Registered at boot, for good, by who has memory that no pointer in static memory, on a stack or
// in another object leads to, or that only it can explain. Each may be nullptr.
struct ReachProvider {
  void (*hide)(ReachVisitor& visitor);
  void (*roots)(ReachVisitor& visitor);
  // What an address, any number, is in the provider's memory; or, of a live object of `cache`, what
  // that is. In words, as format() does: the length; 0 if it is none of the provider's. All CPUs
  // are stopped.
  int (*describe)(uint64_t address, char* buffer, size_t size) = nullptr;
  int (*meaning)(const kmem_cache* cache, const void* object, char* buffer, size_t size) = nullptr;
  ReachProvider* next = nullptr;
};
void reach_register(ReachProvider& provider);
// Registered at boot, for good: `walk` is called for each object of the cache that is reached. The
// object may be being made or destroyed. Its words are looked through besides.
void reach_register_walker(kmem_cache* cache,
                           void (*walk)(const void* object, ReachVisitor& visitor));

// What the scheduler knows of tasks that wait. Registered at boot, for good. All CPUs are stopped
// when it is asked.
class Mutex;
struct ReachTasks {
  // Calls wait(argument, task, lock) for each task that waits for a sleeping lock.
  void (*waits)(void (*wait)(void* argument, const TaskHead& task, const Mutex& lock),
                void* argument);
  // The return addresses on the stack of a task that waits, innermost first; how many.
  size_t (*stack)(const TaskHead& task, uint64_t* program_counters, size_t max);
};
void reach_register_tasks(const ReachTasks& tasks);

// Once, after trace_init(): dumps of references say where these lie (src/reach/references.cc).
void reach_init();

// --- The report.

// How many looks one report makes: 1 to kReachMaxLooks. EINVAL.
inline constexpr unsigned kReachMaxLooks = 16;
Result<void> reach_set_looks(unsigned looks);
// Stops all CPUs, looks, and says what was found. By one at a time, the next waits. ENOMEM: there
// is no memory for the index; EINTR: the process is to end. May sleep; interrupts on, no spinlock
// held.
class ReachReport;
Result<ReachReport*> reach_report_make();
std::string_view reach_report_text(const ReachReport* report);
void reach_report_free(ReachReport* report);
