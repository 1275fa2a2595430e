// The search for unreachable objects: its interface for the rest of the kernel. The theory is in
// reach/reach.cc; docs/unreachable.md explains it for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/task_head.h"
#include "lib/result.h"
#include "lib/units.h"
#include "slab.h"

// A provider of roots reports memory in use to a visitor. All CPUs are stopped and interrupts are
// off, so the provider neither allocates nor frees, and takes no sleeping lock. The provider may
// take spinlocks, because no stopped CPU holds a spinlock.
class ReachVisitor {
 public:
  // Adds the object that contains `address`, and everything that can be reached from the object.
  virtual void object(const void* address) = 0;
  // Does what object() does for each word in [from, to) that is an address. `from` and `to` are
  // multiples of eight.
  virtual void words(const void* from, const void* to) = 0;
  // Does what words() does for the kernel stack of a task, from the saved stack pointer to the end
  // of the stack. A word on the stack also counts as a pointer if it is the physical address of a
  // page that is an object, or the page-table entry of such a page.
  virtual void stack(const TaskHead& task, uint64_t from, uint64_t to) = 0;
  // Adds a page of physical memory.
  virtual void page(PhysAddr page) = 0;
  // Adds a page that is a page table. True if the caller shall read the table's entries. False if
  // the page is no page table, or if its entries have been read already.
  virtual bool table(PhysAddr page) = 0;
  // Excludes the words of the object that contains `address` from the search for pointers. Either
  // the object has no pointers, or its owner reports what its pointers point to. Called only by
  // ReachProvider::hide, before the search.
  virtual void hide(const void* address) = 0;

 protected:
  ~ReachVisitor() = default;
};

// Callbacks of a subsystem. A subsystem registers callbacks if it can describe its memory, or if it
// has memory whose address is in no static variable, on no stack and in no other object. Registered
// at boot, and never unregistered. Each callback may be nullptr.
struct ReachProvider {
  void (*hide)(ReachVisitor& visitor);
  void (*roots)(ReachVisitor& visitor);
  // describe() writes a text about `address`, which may be any number. meaning() writes a text
  // about `object`, a live object of `cache`. Both return the length of the text as format() does,
  // or 0 if the address or the object does not belong to the provider. All CPUs are stopped.
  int (*describe)(uint64_t address, char* buffer, size_t size) = nullptr;
  int (*meaning)(const kmem_cache* cache, const void* object, char* buffer, size_t size) = nullptr;
  ReachProvider* next = nullptr;
};
void reach_register(ReachProvider& provider);
// Registers a function that is called for each reached object of the cache, in addition to the scan
// of the object's words. For objects that store pointers in another form, such as physical
// addresses. The object may be half made or half destroyed. Called at boot; the function is never
// unregistered.
void reach_register_walker(kmem_cache* cache,
                           void (*walk)(const void* object, ReachVisitor& visitor));

// Functions with which the scheduler reports waiting tasks. Registered once, at boot. The functions
// are called with all CPUs stopped.
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

// Sets up the search for references (reach/references.cc): dumps of references then say where
// each reference is stored. Called once, after trace_init().
void reach_init();

// --- The report.

// Sets the number of searches that one report makes: 1 to kReachMaxLooks. EINVAL.
inline constexpr unsigned kReachMaxLooks = 16;
Result<void> reach_set_looks(unsigned looks);
// Stops all CPUs, searches, and makes the report. Only one call searches at a time; other callers
// wait. ENOMEM if there is no memory for the search or the report. EINTR if a signal is pending in
// the pause between two searches. May sleep; interrupts on, no spinlock held.
class ReachReport;
Result<ReachReport*> reach_report_make();
std::string_view reach_report_text(const ReachReport* report);
void reach_report_free(ReachReport* report);
