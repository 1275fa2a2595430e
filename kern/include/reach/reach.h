// The search for unreachable objects: its interface for the rest of the kernel. The theory is in
// src/reach/reach.cc; docs/unreachable.md explains it for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/task_head.h"
#include "lib/result.h"
#include "lib/units.h"
#include "slab.h"

// A provider of roots reports memory in use to a visitor. All CPUs are stopped and interrupts are
// off: the provider neither allocates nor frees, and takes no sleeping lock. Spinlocks are free,
// since no CPU is stopped while it holds one.
class ReachVisitor {
 public:
  // Marks the object that contains `address`, and everything that it leads to.
  virtual void object(const void* address) = 0;
  // The same for each word in [from, to), multiples of eight, that is an address.
  virtual void words(const void* from, const void* to) = 0;
  // The same for the kernel stack of a task, from its saved stack pointer to its end. Here a word
  // may also be the physical address of a page.
  virtual void stack(const TaskHead& task, uint64_t from, uint64_t to) = 0;
  // Marks a page of physical memory.
  virtual void page(PhysAddr page) = 0;
  // The same for a page table. False if it is none or has been walked: the caller then does not
  // read it.
  virtual bool table(PhysAddr page) = 0;
  // Declares that the object that contains `address` has no pointers, or that its owner follows
  // them: its words are not scanned. Before anything is marked (ReachProvider::hide).
  virtual void hide(const void* address) = 0;

 protected:
  ~ReachVisitor() = default;
};

// Callbacks of a subsystem whose memory cannot be reached by a pointer in static memory, on a stack
// or in another object, or which can describe its memory. Registered at boot, for good. Each may be
// nullptr.
struct ReachProvider {
  void (*hide)(ReachVisitor& visitor);
  void (*roots)(ReachVisitor& visitor);
  // Describe an address, which may be any number, in the provider's memory; or a live object of
  // `cache`. Write text and return its length as format() does; 0 if it is none of the provider's.
  // All CPUs are stopped.
  int (*describe)(uint64_t address, char* buffer, size_t size) = nullptr;
  int (*meaning)(const kmem_cache* cache, const void* object, char* buffer, size_t size) = nullptr;
  ReachProvider* next = nullptr;
};
void reach_register(ReachProvider& provider);
// Registers, at boot and for good, a function that is called for each reached object of the cache.
// The object may be half made or half destroyed. Its words are scanned as well.
void reach_register_walker(kmem_cache* cache,
                           void (*walk)(const void* object, ReachVisitor& visitor));

// The scheduler's information about waiting tasks. Registered at boot, for good. Called with all
// CPUs stopped.
class Mutex;
struct ReachTasks {
  // Calls wait(argument, task, lock) for each task that waits for a sleeping lock.
  void (*waits)(void (*wait)(void* argument, const TaskHead& task, const Mutex& lock),
                void* argument);
  // Stores the return addresses on the stack of a waiting task, innermost first; returns their
  // number.
  size_t (*stack)(const TaskHead& task, uint64_t* program_counters, size_t max);
};
void reach_register_tasks(const ReachTasks& tasks);

// Makes dumps of references name the places of these (src/reach/references.cc). Once, after
// trace_init().
void reach_init();

// --- The report.

// Sets the number of searches that one report makes: 1 to kReachMaxLooks. EINVAL.
inline constexpr unsigned kReachMaxLooks = 16;
Result<void> reach_set_looks(unsigned looks);
// Stops all CPUs, searches, and makes the report. One caller at a time; others wait. ENOMEM: no
// memory for the index; EINTR: the process is ending. May sleep; interrupts on, no spinlock held.
class ReachReport;
Result<ReachReport*> reach_report_make();
std::string_view reach_report_text(const ReachReport* report);
void reach_report_free(ReachReport* report);
