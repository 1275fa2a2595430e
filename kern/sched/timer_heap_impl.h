// The armed timers of a CPU, ordered by deadline. Timers with equal deadlines are in the order in
// which they were inserted.
//
// This is a leftist heap (C. A. Crane, "Linear lists and priority queues as balanced binary trees",
// 1972). The rank of a timer is the number of timers on the path from it to the right. A left child
// has at least the rank of its right sibling, so each path to the right has at most log2(n + 1)
// timers. Two heaps are merged along these paths. Insertion and removal of any timer merge once,
// and then correct ranks upwards, which ends at the first rank that stays the same. So each
// operation takes O(log n) steps, allocates nothing and does not recurse.
#pragma once

#include <atomic>
#include <utility>

#include "sched/timer.h"

class TimerHeap {
 public:
  // Any context, without the lock: another CPU may be removing the last timer.
  bool empty() const { return !root_.load(std::memory_order_relaxed); }
  Timer* first() const { return root_.load(std::memory_order_relaxed); }

  void insert(Timer& timer) {
    timer.node = {.rank = 1, .sequence = ++inserted_};
    set_root(merge(first(), &timer));
  }
  // Removes a timer that is in this heap.
  void remove(Timer& timer) {
    Timer* const parent = timer.node.parent;
    Timer* const rest = merge(timer.node.left, timer.node.right);
    if (rest) rest->node.parent = parent;
    if (!parent) {
      set_root(rest);
    } else {
      (parent->node.left == &timer ? parent->node.left : parent->node.right) = rest;
      for (Timer* above = parent; above && correct(*above); above = above->node.parent) continue;
    }
    timer.node = {};
  }

 private:
  static uint32_t rank_of(const Timer* timer) { return timer ? timer->node.rank : 0; }
  static bool is_before(const Timer& a, const Timer& b) {
    if (a.deadline != b.deadline) return a.deadline < b.deadline;
    return a.node.sequence < b.node.sequence;
  }
  // Restores order and rank of a timer whose child has changed. False if the rank stays the same.
  static bool correct(Timer& timer) {
    TimerNode& node = timer.node;
    if (rank_of(node.left) < rank_of(node.right)) std::swap(node.left, node.right);
    return std::exchange(node.rank, rank_of(node.right) + 1) != node.rank;
  }
  // Merges two heaps, whose roots may be nullptr, and returns the root.
  static Timer* merge(Timer* a, Timer* b) {
    Timer *root = nullptr, *last = nullptr;
    const auto append = [&](Timer* timer) {
      if (timer) timer->node.parent = last;
      (last ? last->node.right : root) = timer;
    };
    while (a && b) {
      if (is_before(*b, *a)) std::swap(a, b);
      append(a);
      last = std::exchange(a, a->node.right);
    }
    append(a ? a : b);
    for (; last; last = last->node.parent) correct(*last);
    return root;
  }
  void set_root(Timer* timer) { root_.store(timer, std::memory_order_relaxed); }

  std::atomic<Timer*> root_{nullptr};
  uint64_t inserted_ = 0;
};
