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
  // Marks the object that contains `address`, and everything that can be reached from the object.
  virtual void object(const void* address) = 0;
  // Does what object() does for each word in [from, to) that is an address. `from` and `to` are
  // multiples of eight.
  virtual void words(const void* from, const void* to) = 0;
  // Does what words() does for the kernel stack of a task, from the saved stack pointer to the end
  // of the stack. Here a word may also be the physical address of a page that is an object, or the
  // page-table entry of such a page.
  virtual void stack(const TaskHead& task, uint64_t from, uint64_t to) = 0;
  // Marks a page of physical memory.
  virtual void page(PhysAddr page) = 0;
  // Marks a page that is a page table. False if the page is no page table, or has been walked
  // already: the caller then does not read it.
  virtual bool table(PhysAddr page) = 0;
  // Declares that the object that contains `address` has no pointers, or that its owner follows
  // them: its words are not scanned. Called only by ReachProvider::hide, before anything is marked.
  virtual void hide(const void* address) = 0;

 protected:
  ~ReachVisitor() = default;
};

// Callbacks of a subsystem that can describe its memory, or that has memory to which no pointer
// leads from static memory, a stack or another object. Registered at boot, and never
// unregistered. Each callback may be nullptr.
struct ReachProvider {
  void (*hide)(ReachVisitor& visitor);
  void (*roots)(ReachVisitor& visitor);
  // describe() writes a text about `address`, which may be any number; meaning(), about a live
  // object of `cache`. Both functions return the length of the text as format() does, or 0 if the
  // address or object is not the provider's. All CPUs are stopped.
  int (*describe)(uint64_t address, char* buffer, size_t size) = nullptr;
  int (*meaning)(const kmem_cache* cache, const void* object, char* buffer, size_t size) = nullptr;
  ReachProvider* next = nullptr;
};
void reach_register(ReachProvider& provider);
// Registers a function that is called for each reached object of the cache. At boot; it is never
// unregistered. The object may be half made or half destroyed. Its words are scanned as well.
void reach_register_walker(kmem_cache* cache,
                           void (*walk)(const void* object, ReachVisitor& visitor));

// The scheduler's information about waiting tasks. Registered once, at boot. Called with all CPUs
// stopped.
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

// Makes dumps of references say where each reference is stored (src/reach/references.cc). Once,
// after trace_init().
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
