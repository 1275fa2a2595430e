// CPUs record allocations while a task sweeps the tables of stacks and contexts.
//
// Each CPU is a thread, and so is the sweeping task. In the kernel, a hook of the tracer runs with
// interrupts off; here, a hook holds the lock of its CPU. In the kernel, the sweeping task
// interrupts every CPU once (a round); here, round() takes the lock of each CPU in turn. As in the
// kernel, numbers of stacks and contexts are cached and then used without a look-up. A CPU uses the
// numbers of its recent stacks until the next round. A task uses the number of its context until it
// gets another context, and the number of its user stack until it gets another user stack.
//
// Each record has the number of its stack (or pair of stacks) and the number of its context. With
// each number, the record also has a description of the entry's contents, and check() compares this
// description with the entry.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "intern/context_table.h"
#include "intern/stack_table.h"
#include "intern/trace_memory.h"

class ForgetWorkload {
 public:
  static constexpr unsigned kCpus = 4;

  // The workload has `different` kernel stacks, and a quarter as many user stacks and processes. A
  // CPU executes at most `hooks` hooks between two rounds.
  explicit ForgetWorkload(uint32_t different, uint32_t hooks)
      : different_(different), hooks_(hooks) {
    for (unsigned i = 0; i < kCpus; i++) cpus_[i].random.seed(i + 1);
  }
  bool open() { return stacks_.open().ok() && contexts_.open().ok(); }
  void close() {
    stacks_.clear();
    contexts_.clear();
  }

  // run() makes `epochs` sweeps while the CPUs work, and aborts the program at the first error. If
  // `disturb` is not null, run() calls it in another thread meanwhile. disturb() gets the threads
  // of the CPUs, followed by the thread of the sweeping task.
  using Disturb = void (*)(const ForgetWorkload& workload, const std::vector<pthread_t>& threads);
  bool done() const { return done_; }
  bool sweeping() const { return sweeping_; }
  void run(unsigned epochs, Disturb disturb = nullptr) {
    std::vector<std::thread> threads;
    for (Cpu& cpu : cpus_) {
      threads.emplace_back([&] {
        while (!done_) {
          if (cpu.interrupted || cpu.hooks == 0) {
            std::this_thread::yield();
          } else {
            cpu.hooks--;
            hook(cpu);
            cpu.worked = true;
          }
        }
      });
    }
    threads.emplace_back([&] {
      for (unsigned i = 0; i < epochs; i++) {
        sweeping_ = true;
        sweep();
        sweeping_ = false;
        for (Cpu& cpu : cpus_) {
          while (!cpu.worked.exchange(false)) std::this_thread::yield();
        }
        most_held_ = std::max(most_held_, stacks_.fill().bytes_held + contexts_.fill().bytes_held);
      }
      done_ = true;
    });
    if (disturb) {
      std::vector<pthread_t> handles;
      for (std::thread& thread : threads) handles.push_back(thread.native_handle());
      std::thread(disturb, std::cref(*this), std::cref(handles)).join();
    }
    for (std::thread& thread : threads) thread.join();
  }

  void sweep() {
    stacks_.begin_epoch();
    contexts_.begin_epoch();
    round();
    // First retain the numbers that tasks have, then the numbers in records. After the second loop
    // has visited a record, a hook may still copy the number of its task's context to the record.
    // The first loop has already retained this number, or the hook has looked it up since the
    // round.
    for (Cpu& cpu : cpus_) {
      stacks_.retain(StackId{id_of(cpu.caller.load())});
      contexts_.retain(ContextId{id_of(cpu.context.load())});
    }
    for (Cpu& cpu : cpus_) {
      for (Record& record : cpu.records) {
        stacks_.retain(StackId{id_of(record.stack.load())});
        contexts_.retain(ContextId{id_of(record.context.load())});
      }
    }
    for (const auto pass : {InternTable::Pass::kReferring, InternTable::Pass::kReferred}) {
      while (stacks_.sweep(pass)) {
      }
      while (contexts_.sweep(pass)) {
      }
      round();
    }
    while (stacks_.reuse()) {
    }
    while (contexts_.reuse()) {
    }
  }

  // Call while no CPU works. Makes two sweeps. Then checks each record, and checks that records or
  // tasks refer to every entry of the tables.
  void check_at_rest() {
    for (int i = 0; i < 2; i++) sweep();
    std::set<uint32_t> stacks, pairs, contexts;
    for (Cpu& cpu : cpus_) {
      const std::lock_guard interrupts_off(cpu.lock);
      stacks.insert(id_of(cpu.caller));
      contexts.insert(id_of(cpu.context));
      for (Record& record : cpu.records) {
        check(record);
        contexts.insert(id_of(record.context));
        const uint32_t id = id_of(record.stack);
        const StackTable::Pair pair = stacks_.split(StackId{id});
        stacks.insert({number_of(pair.stack), number_of(pair.user_stack)});
        if (pair.user_stack != StackId::kNone) pairs.insert(id);
      }
    }
    for (auto* numbers : {&stacks, &pairs, &contexts}) numbers->erase(0);
    expect(stacks_.size() == stacks.size(), "stacks that nobody has");
    expect(stacks_.fill().entries == stacks.size() + pairs.size(), "pairs that nobody has");
    expect(contexts_.size() == contexts.size(), "contexts that nobody has");
  }

  uint64_t most_held() const { return most_held_; }

 private:
  static constexpr uint32_t kRecords = 32, kRecent = 8;
  // A reference to a table entry. The lower half is the entry's number, the upper half describes
  // the entry's contents.
  using Named = std::atomic<uint64_t>;
  static uint32_t id_of(uint64_t named) { return static_cast<uint32_t>(named); }
  static uint32_t what_of(uint64_t named) { return static_cast<uint32_t>(named >> 32); }
  static uint64_t named(uint32_t what, uint32_t id) { return uint64_t{what} << 32 | id; }

  struct Record {
    // The 32-bit description of a stack or pair has the workload's number of the kernel stack in
    // the low 16 bits. The high 16 bits are the workload's number of the user stack plus 1, or 0
    // without a user stack.
    Named stack{0}, context{0};
  };
  struct Cpu {
    std::mutex lock;
    std::atomic<bool> interrupted{false};  // a round is about to take `lock`
    std::atomic<uint32_t> hooks{0};        // hooks that may run before the next round
    std::atomic<bool> worked{false};       // set after each hook; cleared after each sweep
    std::minstd_rand random;
    std::array<Record, kRecords> records;
    Named caller{0}, context{0};  // user stack and context of the task that runs on the CPU
    std::array<uint64_t, kRecent> recent_stacks = {}, recent_callers = {};
  };

  static void expect(bool condition, const char* what) {
    if (condition) return;
    fprintf(stderr, "wrong: %s\n", what);
    abort();
  }

  void round() {
    for (Cpu& cpu : cpus_) {
      cpu.interrupted = true;
      const std::lock_guard interrupts_off(cpu.lock);
      cpu.recent_stacks = cpu.recent_callers = {};
      cpu.interrupted = false;
      cpu.hooks = hooks_;
    }
  }

  static std::vector<uint64_t> frames_of(StackKind kind, uint32_t what) {
    const uint64_t base = kind == StackKind::kKernel ? StackTable::kKernelBase : 0x400000;
    return std::vector<uint64_t>(1 + what % 4, base + what * 16);
  }
  StackId intern(StackKind kind, uint32_t what) {
    const std::vector<uint64_t> frames = frames_of(kind, what);
    return stacks_.intern(kind, frames.data(), frames.size());
  }
  template <size_t kSize>
  StackId stack(std::array<uint64_t, kSize>& recent, StackKind kind, uint32_t what) {
    uint64_t& met = recent[what % kSize];
    if (met == 0 || what_of(met) != what) met = named(what, number_of(intern(kind, what)));
    return StackId{id_of(met)};
  }
  ContextId context(uint32_t process) {
    return contexts_.intern(ContextKind::kProcess, process + 1,
                            "program" + std::to_string(process % 8));
  }

  void hook(Cpu& cpu) {
    const std::lock_guard interrupts_off(cpu.lock);
    trace_memory_prepare();
    if (cpu.random() % 8 == 0 || cpu.context == 0) {
      const uint32_t process = cpu.random() % (different_ / 4);
      cpu.context = named(process, number_of(context(process)));
    }
    if (cpu.random() % 4 == 0 || cpu.caller == 0) {
      const uint32_t user = cpu.random() % (different_ / 4);
      cpu.caller = named(user, number_of(stack(cpu.recent_callers, StackKind::kUser, user)));
    }
    const uint32_t kernel = cpu.random() % different_;
    const StackId id = stack(cpu.recent_stacks, StackKind::kKernel, kernel);
    Record& record = cpu.records[cpu.random() % kRecords];
    if (cpu.random() % 3 == 0) {
      record.stack = named(kernel, number_of(id));
    } else {
      const StackTable::Pair both = {id, StackId{id_of(cpu.caller)}};
      StackId pair = stacks_.find_pair(both);
      if (pair == StackId::kNone) pair = stacks_.intern_pair(both);
      record.stack = named(kernel | (what_of(cpu.caller) + 1) << 16, number_of(pair));
    }
    record.context = cpu.context.load();
    check(cpu.records[cpu.random() % kRecords]);
  }

  void check(const Record& record) {
    if (record.stack == 0) return;
    const uint32_t what = what_of(record.stack), user = what >> 16;
    const StackTable::Pair pair = stacks_.split(StackId{id_of(record.stack)});
    check_stack(pair.stack, StackKind::kKernel, what & 0xffff);
    expect((pair.user_stack != StackId::kNone) == (user != 0), "a pair is none, or a stack is one");
    if (user != 0) check_stack(pair.user_stack, StackKind::kUser, user - 1);
    if (user != 0)
      expect(stacks_.intern_pair(pair) == StackId{id_of(record.stack)}, "a pair has two numbers");
    const uint32_t process = what_of(record.context);
    const ContextTable::Context* const context = contexts_.get(ContextId{id_of(record.context)});
    expect(context->pid == process + 1 &&
               context->program->name == "program" + std::to_string(process % 8),
           "a context is another one");
    expect(this->context(process) == ContextId{id_of(record.context)}, "a context has two numbers");
  }
  void check_stack(StackId id, StackKind kind, uint32_t what) {
    const StackTable::View view = stacks_.view(id);
    const std::vector<uint64_t> frames = frames_of(kind, what);
    bool same = view && view.kind() == kind && view.size() == frames.size();
    for (size_t i = 0; same && i < frames.size(); i++) same = view[i] == frames[i];
    expect(same, "a stack is another one");
    expect(intern(kind, what) == id, "a stack has two numbers");
  }

  const uint32_t different_, hooks_;
  StackTable stacks_;
  ContextTable contexts_;
  std::array<Cpu, kCpus> cpus_;
  uint64_t most_held_ = 0;
  std::atomic<bool> done_{false}, sweeping_{false};
};
