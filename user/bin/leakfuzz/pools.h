// What arguments may point at: pools of paths, data, structures and addresses, by letter.
//
//   P paths    T places to bind at    D data to write       B buffers
//   K targets of symbolic links, of which root gets those that lead into #tmp only
//   S structures                      V vectors of strings
//   X addresses that nobody may use   A addresses to map at
//   W the current directory, for what takes a directory and a path
//   N processes           Y threads
//   L the file that leaks when it is closed, for the proof that a leak is found; no program gets it
//     otherwise
//
// The pools keep hostile programs of root from what would only end the run: turning the machine off
// (#cons/power), a panic or a leak on request (#debug), the log that the host follows and the other
// serial ports (#uart), the counts of the bench, which take seconds (#bench), coverage itself
// (#coverage), signals to the fuzzer (kill -1 or the parent's PID as root), and binds outside of
// /tmp/fuzz, also through a symbolic link, which would change every other process's world. Nothing
// else is kept from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "abi/syscall.h"
#include "program.h"

// The number of entries of the pool with this letter; 0 if there is none.
size_t pool_size(char pool);
std::string_view pool_path(char pool, size_t index);  // of P, T and L
std::string_view pool_data(size_t index);             // of D

std::string_view pool_link_target(size_t index, uint32_t uid);  // of K, for this user

// The entries of S of one kind: T times, I settings of timers, N what timers do, A alternate
// stacks, U limits, F locks, H threads to make.
struct PoolRange {
  size_t first, count;
};
PoolRange pool_structures(char kind);
size_t pool_structure_size(size_t index);  // of S, in bytes

// Makes the memory that the entries stand for, once, before programs are run.
void make_pools();

// Threads of a program go on with its calls as processes do that it forks. Of H the first
// kThreadsToMake are such, each with a stack of its own; the others are none.
inline constexpr size_t kThreadsToMake = 3;
// The structure that is made a thread of; nullptr if it is none of these. `number`: which.
abi_thread* pool_thread(const Argument& argument, size_t* number);
// Where its threads begin, with the structure's argument. Not set in what prints programs.
void set_thread_entry(void (*entry)(uint64_t argument));
// The number, from 1 on, of the stack that the address is in, and how far; 0: it is in none.
size_t pool_stack_at(uint64_t address);
size_t pool_stack_offset(uint64_t address);

// What a process of a program knows when it makes a call.
struct Caller {
  int last_child = 0;  // 0: none
  uint32_t uid = 0;    // the program's
};
// The value of an entry.
uint64_t pool_value(char pool, size_t index, const Caller& caller);
