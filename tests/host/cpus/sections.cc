// CPUs for ThreadSanitizer. A thread that turns interrupts off locks the mutex of its CPU. So for
// ThreadSanitizer, two interrupts-off regions on one CPU are ordered, as on real hardware. All
// other accesses are ordered only by locks and atomic operations. So ThreadSanitizer reports a race
// if two CPUs access the same data and rely only on interrupts being off.
//
// A thread represents a preemptible task: when it turns interrupts off, it sometimes moves to
// another CPU first. slab_os_on_each_cpu() calls the function for each CPU on the caller's thread,
// which holds that CPU's mutex during the call.
#include <array>
#include <barrier>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "arch/x86_64/interrupts.h"
#include "core/log.h"
#include "cpus.h"

__thread struct host_cpu host_cpu = {};

namespace {

std::array<std::mutex, SLAB_OS_MAX_CPUS> sections;
constexpr unsigned kSectionsBetweenMoves = 200;
thread_local unsigned move_among = 0;  // the thread moves among CPUs 0 to move_among - 1; 0: never

}  // namespace

void host_section_begin(void) {
  thread_local std::minstd_rand random(host_cpu.id + 1);
  if (move_among > 0 && random() % kSectionsBetweenMoves == 0) host_cpu.id = random() % move_among;
  sections[host_cpu.id].lock();
}

void host_section_end(void) {
  sections[host_cpu.id].unlock();
}

void host_interrupt_deliver(void) {}

void host::cpus_start() {}

void host::run_cpus(unsigned count, const std::function<void(unsigned)>& body,
                    void (*interrupt)()) {
  ASSERT(!interrupt);
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < count; id++) {
    threads.emplace_back([&, id] {
      host_cpu.id = id;
      move_among = count;
      start.arrive_and_wait();
      body(id);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void slab_os_on_each_cpu(void (*function)(void*), void* argument) {
  ASSERT(interrupts_enabled());
  const unsigned home = host_cpu.id;
  const unsigned moves = std::exchange(move_among, 0);
  for (unsigned id = 0; id < sections.size(); id++) {
    host_cpu.id = id;
    const InterruptsOff off;
    function(argument);
  }
  host_cpu.id = home;
  move_among = moves;
}
