// Pools of values for arguments: paths, data, structures, addresses and so on. Each has a letter.
//
//   P paths    T paths to bind at     D data to write       B buffers
//   K targets of symbolic links; root gets only those that lead into #tmp
//   S structures                      V vectors of strings
//   X invalid addresses               A addresses to map at
//   W the current directory, for calls that take a directory and a path
//   N processes           Y threads
//   L the file that leaks when it is closed, to prove that leaks are found; generated programs
//     never get it
//
// The pools keep hostile programs of root from actions that would only end the run: turning the
// machine off (#cons/power), a panic or a leak on request (#debug), the log that the host follows
// and the other serial ports (#uart), the counts of the bench, which take seconds (#bench),
// coverage itself (#coverage), signals to the fuzzer (kill -1 or the parent's PID as root), and
// binds outside of /tmp/fuzz, also through a symbolic link, which would change the namespace of
// other processes. Everything else is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "abi/syscall.h"
#include "program.h"

// The number of entries of the pool with this letter; 0 if no pool has it.
size_t pool_size(char pool);
std::string_view pool_path(char pool, size_t index);  // path of pool P, T or L
std::string_view pool_data(size_t index);             // data of pool D

std::string_view pool_link_target(size_t index,
                                  uint32_t uid);  // target of a link of pool K, for this user

// The range of the entries of pool S that have one kind. The kinds are T times, I settings of
// timers, N actions of timers, A alternate stacks, U limits, F locks, H threads to make.
struct PoolRange {
  size_t first, count;
};
PoolRange pool_structures(char kind);
size_t pool_structure_size(size_t index);  // bytes of a structure of pool S

// Makes the memory that entries point to. Called once, before programs run.
void make_pools();

// A thread continues with the calls of its program, like a forked process. The first kThreadsToMake
// entries of kind H are valid threads, each with a stack of its own; the others are invalid.
inline constexpr size_t kThreadsToMake = 3;
// Returns the structure of a valid thread, and its number in `number`; nullptr for any other
// argument.
abi_thread* pool_thread(const Argument& argument, size_t* number);
// Sets the function that threads run; it gets the `argument` of the thread's structure. Not needed
// to print programs.
void set_thread_entry(void (*entry)(uint64_t argument));
// If the address is in a thread's stack, pool_stack_at() returns the stack's number, from 1 on, and
// pool_stack_offset() the address's offset in the stack, in bytes. Otherwise pool_stack_at()
// returns 0.
size_t pool_stack_at(uint64_t address);
size_t pool_stack_offset(uint64_t address);

// State of the process that makes a call. The values of some entries depend on it.
struct Caller {
  int last_child = 0;  // PID of the child forked last; 0: none
  uint32_t uid = 0;    // user of the program
};
// The value of an entry.
uint64_t pool_value(char pool, size_t index, const Caller& caller);
