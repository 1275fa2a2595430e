#include "as_c.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "abi/syscall.h"
#include "calls.h"
#include "pools.h"

namespace {

constexpr const char* kHead =
    R"(/* Made by leakfuzz; make program FROM=found.c TO=found builds it. Each function is a process
 * of its own. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stele.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/syscall.h"

static char buffers[4][128 << 10] __attribute__((aligned(4096)));
static char *last_page, *read_only; /* the page after last_page cannot be accessed */
static long last_child;

static void on_signal(int number) {
  (void)number;
  stele_call(ABI_SYS_getppid, 0, 0, 0, 0, 0, 0);
}
static void touch(long address) { *(volatile char*)address = *(volatile char*)address; }
static void nudged(int number) { (void)number; }
void sigreturn_call(void);
__asm__("sigreturn_call: movl $49, %eax; syscall; hlt");

/* A thread goes on with the calls of the program that has made it. */
static char stacks[3][16 << 10] __attribute__((aligned(16)));
static struct {
  void (*program)(int);
  int from, made;
} threads[3];
static void begin_thread(long number) {
  threads[number].program(threads[number].from);
  stele_call(ABI_SYS_thread_exit, 0, 0, 0, 0, 0, 0);
}
static void make_thread(int number, uint64_t* how, void (*program)(int), int from) {
  if (threads[number].made) return;
  threads[number].program = program;
  threads[number].from = from;
  threads[number].made = 1;
  how[0] = (uint64_t)begin_thread;
  how[1] = number;
  stele_call(ABI_SYS_thread_create, (long)how, 0, 0, 0, 0, 0);
}
)";

constexpr const char* kTail = R"(
static void in_process(void (*program)(int), int uid) {
  const int pid = fork();
  if (pid == 0) {
    setsid();
    for (int fd = 0; fd < 40; fd++) close(fd);
    for (int fd = 0; fd < 3; fd++) open("#null/null", O_RDWR);
    chdir("/tmp/fuzz");
    umask(0);
    signal(SIGUSR1, nudged);
    if (uid != 0 && (setgid(uid) != 0 || setuid(uid) != 0)) _exit(1);
    program(0);
    _exit(0);
  }
  for (int i = 0; i < 5; i++) { /* a call that waits is interrupted, the last one killed */
    const struct abi_timespec pause = {0, 60000000};
    stele_call(ABI_SYS_nanosleep, ABI_CLOCK_MONOTONIC, 0, (long)&pause, 0, 0, 0);
    kill(pid, i < 4 ? SIGUSR1 : SIGKILL);
  }
  waitpid(pid, NULL, 0);
}

int main(void) {
  mkdir("/tmp/fuzz", 0777);
  chmod("/tmp/fuzz", 0777);
  last_page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(last_page + 4096, 4096, PROT_NONE);
  read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
)";

std::string quoted(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    char escape[8];
    if (c == '"' || c == '\\')
      text += '\\', text += c;
    else if (c >= ' ' && c < 127 && c != '?')
      text += c;
    else
      snprintf(escape, sizeof escape, "\\%03o",
               static_cast<unsigned>(static_cast<unsigned char>(c))),
          text += escape;
  }
  return text + '"';
}

std::string name_of(const Argument& argument) {
  return std::string(1, static_cast<char>(argument.pool | 0x20)) + std::to_string(argument.value);
}

std::string expression(const Argument& argument, uint32_t uid) {
  const size_t index = argument.value;
  char number[40];
  const Caller nobody{.last_child = 0, .uid = uid};
  switch (argument.pool) {
    case 'P':
    case 'T':
    case 'L':
      return "(long)" + quoted(pool_path(argument.pool, index));
    case 'K':
      return "(long)" + quoted(pool_link_target(index));
    case 'D':
      return "(long)" + quoted(pool_data(index));
    case 'B':
      return index < 4 ? "(long)buffers[" + std::to_string(index) + "]"
                       : "(long)buffers[" + std::to_string(index - 4) + "] + 1021";
    case 'V':
    case 'S':
      if (pool_value(argument.pool, index, nobody) == 0) return "0";
      return "(long)" + name_of(argument);
    case 'N': {
      static const char* const kProcesses[] = {"getpid()", "(last_child ? last_child : getpid())",
                                               "0",        "-getpid()",
                                               "99999",    "INT32_MIN",
                                               "1",        "getppid()",
                                               "-1"};
      return uid == 0 && index >= 7 ? "getpid()" : kProcesses[index];
    }
    case 'Y':
      if (index < kThreadsToMake) return "*(uint32_t*)buffers[" + std::to_string(index) + "]";
      if (index == kThreadsToMake) return "stele_call(ABI_SYS_gettid, 0, 0, 0, 0, 0, 0)";
      break;
    case 'X': {
      static const char* const kMore[] = {"(long)last_page + 4093", "(long)last_page + 4096",
                                          "(long)read_only", "(long)&begin_thread"};
      const size_t plain = pool_size('X') - std::size(kMore);
      if (index >= plain) return kMore[index - plain];
      break;
    }
    default:
      break;
  }
  const uint64_t value = argument.pool ? pool_value(argument.pool, index, nobody) : argument.value;
  snprintf(number, sizeof number, "0x%lx", static_cast<unsigned long>(value));
  return number;
}

// Returns how many pointers at the start of `strings` are equal to the first one; at least 1.
size_t equal_strings(const char* const* strings) {
  size_t count = 1;
  while (strings[0] && strings[count] == strings[0]) count++;
  return count;
}

// Returns 1 + i if buffer i of pool B begins at the address; 0 if no buffer begins there.
size_t buffer_at(uint64_t address) {
  for (size_t i = 0; i < 4; i++) {
    if (pool_value('B', i, {}) == address) return i + 1;
  }
  return 0;
}

// Prints a C array with the contents of `argument`, which is a structure (pool S) or a vector of
// strings (pool V).
void print_structure(const Argument& argument) {
  const Caller nobody;
  const uint64_t address = pool_value(argument.pool, argument.value, nobody);
  printf("static uint64_t %s[] = {", name_of(argument).c_str());
  if (argument.pool == 'V') {
    const auto strings = reinterpret_cast<const char* const*>(address);
    const size_t alike = equal_strings(strings);
    if (alike > 1) printf("[0 ... %zu] = ", alike - 1);
    for (size_t i = alike - 1; strings[i]; i++) {
      const bool is_text = strings[i] < reinterpret_cast<const char*>(0x8000000000);
      const std::string text = is_text ? quoted(strings[i]) : "0x4141414141414141";
      printf("(uint64_t)%s, ", text.c_str());
    }
    printf("0};\n");
    return;
  }
  const size_t size = pool_structure_size(argument.value);
  std::vector<uint64_t> words((size + 7) / 8);
  memcpy(words.data(), reinterpret_cast<const void*>(address), size);
  const uint64_t restorer =
      reinterpret_cast<const abi_sigaction*>(pool_value('S', 2, nobody))->restorer;
  const uint64_t handler =
      reinterpret_cast<const abi_sigaction*>(pool_value('S', 2, nobody))->handler;
  for (const uint64_t word : words) {
    if (word == handler)
      printf("(uint64_t)on_signal, ");
    else if (word == restorer)
      printf("(uint64_t)sigreturn_call, ");
    else if (const size_t stack = pool_stack_at(word))
      printf("(uint64_t)stacks[%zu] + %zu, ", stack - 1, pool_stack_offset(word));
    else if (const size_t buffer = buffer_at(word))
      printf("(uint64_t)buffers[%zu], ", buffer - 1);
    else
      printf("0x%lx, ", static_cast<unsigned long>(word));
  }
  printf("};\n");
}

// Returns the indexes of the calls at which a thread begins, or to which it jumps.
std::set<size_t> beginnings(const Program& program) {
  std::set<size_t> found{0};
  for (size_t next = 1; next <= program.calls.size(); next++) {
    const Call& call = program.calls[next - 1];
    if (call.number == ABI_SYS_thread_create || call.number == kApart) found.insert(next);
    if (call.number == kApart) found.insert(after_again(program, next));
  }
  return found;
}

bool jumps(const Program& program) {
  return std::any_of(program.calls.begin(), program.calls.end(), [](const Call& call) {
    return call.number == kAgain || call.number == kApart;
  });
}

}  // namespace

void print_as_c(const std::vector<Program>& programs) {
  printf("%s\n", kHead);
  std::vector<Argument> printed;
  for (const Program& program : programs) {
    for (const Call& call : program.calls) {
      for (const Argument& argument : call.arguments) {
        if (argument.pool != 'S' && argument.pool != 'V') continue;
        if (pool_value(argument.pool, argument.value, {}) == 0) continue;
        bool known = false;
        for (const Argument& other : printed) known |= other == argument;
        if (known) continue;
        printed.push_back(argument);
        print_structure(argument);
      }
    }
  }
  for (size_t i = 0; i < programs.size(); i++) {
    const std::set<size_t> labels = beginnings(programs[i]);
    printf("\nstatic void program%zu(int from) {\n", i);
    printf("  int repetitions = 0, is_new = from != 0;\n  (void)repetitions, (void)is_new;\n");
    if (jumps(programs[i])) printf("again:\n");
    printf("  switch (from) {\n");
    size_t made = 0;
    for (const Call& call : programs[i].calls) {
      if (labels.contains(made)) printf("    case %zu:;\n", made);
      made++;
      size_t thread;
      if (call.number == ABI_SYS_thread_create && pool_thread(call.arguments[0], &thread)) {
        printf("  make_thread(%zu, %s, program%zu, %zu);\n", thread,
               name_of(call.arguments[0]).c_str(), i, made);
        continue;
      }
      if (call.number == kAgain) {
        printf("  if (repetitions++ < %lu) goto again;\n",
               static_cast<unsigned long>(call.arguments[0].value));
        continue;
      }
      if (call.number == kTouch) {
        printf("  touch(%s);\n", expression(call.arguments[0], programs[i].uid).c_str());
        continue;
      }
      if (call.number == kApart) {
        printf("  from = is_new ? %zu : %zu;\n  is_new = 0;\n  goto again;\n",
               after_again(programs[i], made), made);
        continue;
      }
      const CallType& type = call_type(call.number);
      const bool forks = call.number == ABI_SYS_fork;
      const std::string number =
          type.name == "none" ? "ABI_SYS_COUNT" : "ABI_SYS_" + std::string(type.name);
      printf("  %sstele_call(%s", forks ? "last_child = " : "", number.c_str());
      for (size_t j = 0; j < 6; j++) {
        printf(", %s", j < call.arguments.size()
                           ? expression(call.arguments[j], programs[i].uid).c_str()
                           : "0");
      }
      printf(");\n");
      if (forks) printf("  is_new = last_child == 0;\n");
    }
    if (labels.contains(made)) printf("    case %zu:;\n", made);
    printf("  }\n");
    if (made % 2 == 0) printf("  stele_call(ABI_SYS_thread_exit, 0, 0, 0, 0, 0, 0);\n");
    printf("}\n");
  }
  printf("%s", kTail);
  for (size_t i = 0; i < programs.size(); i++)
    printf("  in_process(program%zu, %u);\n", i, programs[i].uid);
  printf("  return 0;\n}\n");
}
