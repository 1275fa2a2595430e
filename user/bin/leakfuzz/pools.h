// Pools of values for arguments: paths, data, structures, addresses and so on. Each has a letter.
//
//   P paths    T paths to bind at     D data to write       B buffers
//   K targets of symbolic links; root gets only targets inside #tmp
//   S structures                      V vectors of strings
//   X invalid addresses               A addresses to map at
//   W the current directory, for calls that take a directory and a path
//   N processes           Y threads
//   L the file that leaks when it is closed, to prove that leaks are found; only leakfuzz's own
//     check uses it, not generated programs
//
// A program of root could easily end or disturb the run. So the pools of generated programs have no
// entries for:
//
//   #cons/power  turns the machine off
//   #debug       panics and leaks on request
//   #uart        has the log that the host follows
//   #bench       its measurements take seconds
//   #coverage    belongs to the fuzzer itself
//
// As root, a program cannot get -1 or its parent's PID from pool N, because signals would reach the
// fuzzer. It can bind only inside /tmp/fuzz, because other binds would change the namespace of
// other processes. A bind follows symbolic links, so root's symbolic links lead only into #tmp. All
// other actions are allowed.
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
std::string_view pool_link_target(size_t index);      // target of a link of pool K

// A range of entries of pool S: all structures of one kind. The kinds are T times, I settings of
// timers, N actions of timers, A alternate stacks, U limits, F locks, H threads to make. For any
// other kind, the range is empty and begins at the end of the pool.
struct PoolRange {
  size_t first, count;
};
PoolRange pool_structures(char kind);
size_t pool_structure_size(size_t index);  // bytes of a structure of pool S

// Makes the memory that entries point to. Called once, before programs run.
void make_pools();

// After thread_create, the new thread and its creator both make the remaining calls of the program.
// The first kThreadsToMake structures of kind H are valid threads. Each has a stack of its own. The
// other structures of kind H are invalid.
inline constexpr size_t kThreadsToMake = 3;
// If `argument` is a valid thread, returns its structure and stores its number in `number`.
// Otherwise returns nullptr.
abi_thread* pool_thread(const Argument& argument, size_t* number);
// Sets the function that threads run. The function gets the `argument` of the thread's structure.
// Programs can be printed without this call.
void set_thread_entry(void (*entry)(uint64_t argument));
// Returns 1 + i if the address is in the stack of thread i; 0 if it is in no thread's stack.
size_t pool_stack_at(uint64_t address);
// Returns the offset, in bytes, of an address in a thread's stack.
size_t pool_stack_offset(uint64_t address);

// State of the process that makes a call. The values of some entries depend on it.
struct Caller {
  int last_child = 0;  // PID of the child forked last; 0: none
  uint32_t uid = 0;    // user of the program
};
// The value of an entry.
uint64_t pool_value(char pool, size_t index, const Caller& caller);
