// CPUs for ThreadSanitizer: code with interrupts off on a CPU holds the CPU's mutex, and so is
// ordered after earlier such code there. The hardware gives this order, and apart from it only
// locks and atomic operations order accesses: ThreadSanitizer reports data that two CPUs touch with
// interrupts off without either.
//
// Threads are tasks. Now and then a thread finds itself on another CPU when it turns interrupts
// off, like a preemptible task. A call to each CPU runs on the caller's thread, holding that CPU's
// mutex.
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
thread_local unsigned move_among = 0;  // CPUs 0 … move_among - 1; 0: stays

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
