#include "pools.h"

#include <stele.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <iterator>

#include "abi/syscall.h"

extern "C" void leakfuzz_sigreturn();
asm("leakfuzz_sigreturn: movl $49, %eax; syscall; hlt");
static_assert(ABI_SYS_sigreturn == 49);

namespace {

using std::string_view;
using namespace std::string_view_literals;

// File names of 255 and 256 characters, a long path, and a path longer than the limit.
#define X16(s) s s s s s s s s s s s s s s s s
constexpr char kName255[] = "/tmp/fuzz/" X16("0123456789abcde") "0123456789abcde";
constexpr char kName256[] = "/tmp/fuzz/" X16("0123456789abcdef");
constexpr char kLongPath[] = "/tmp/fuzz" X16("/" X16("../"));
constexpr char kTooLong[] = "/tmp/fuzz" X16(X16("/...."));
// Targets of links that lead deep into a directory, with many `..`: a walk through them takes so
// long that names change meanwhile.
#define BACK_AND_FORTH X16("/b/b/b") X16("/../b/../b/../b/../b/../b/../b/../b/../b/../b")
constexpr char kThroughP[] = "/tmp/fuzz/p" BACK_AND_FORTH;
constexpr char kThroughQ[] = "/tmp/fuzz/q" BACK_AND_FORTH;

constexpr string_view kPaths[] = {"/tmp/fuzz",
                                  "/tmp/fuzz/a",
                                  "/tmp/fuzz/b",
                                  "/tmp/fuzz/c",
                                  "/tmp/fuzz/a/a",
                                  "/tmp/fuzz/a/b",
                                  "/tmp/fuzz/b/a",
                                  "/tmp/fuzz/a/../b",
                                  "a",
                                  "b",
                                  "a/b",
                                  "../a",
                                  ".",
                                  "..",
                                  "/",
                                  "",
                                  "/tmp/fuzz/x",
                                  "/tmp/fuzz/d",
                                  "/tmp/fuzz/d/e",
                                  "/tmp/fuzz/d/e/f",
                                  "/tmp",
                                  "#tmp",
                                  "/dev",
                                  "/dev/null",
                                  "/dev/zero",
                                  "/dev/random",
                                  "#null/zero",
                                  "#pipe",
                                  "#root",
                                  "/bin",
                                  "/bin/true",
                                  "/bin/sh",
                                  "/bin/cat",
                                  "/etc/profile",
                                  "/etc",
                                  "/none",
                                  "/proc",
                                  "/proc/self",
                                  "/proc/self/stat",
                                  "/proc/self/status",
                                  "/proc/self/cmdline",
                                  "/proc/self/ctl",
                                  "/proc/1/ctl",
                                  "/proc/1/cmdline",
                                  "/proc/stat",
                                  "/proc/meminfo",
                                  "/proc/99999/stat",
                                  "#cons",
                                  "#cons/tty",
                                  "#cons/cmdline",
                                  "#mem",
                                  "#mem/kmemstat",
                                  "#mem/slab_stats",
                                  "#mem/arena_stats",
                                  "#mem/free",
                                  "#mem/kmemtrace",
                                  "#mem/kmemtrace/ctl",
                                  "#mem/kmemtrace/chan",
                                  "#mem/kmemtrace/kmalloc_64",
                                  "#mem/kmemtrace/page",
                                  "#mem/tracedump",
                                  "#mem/ksyms",
                                  "#probe",
                                  "#probe/clone",
                                  "#probe/functions",
                                  "#probe/1/ctl",
                                  "#probe/1/counts",
                                  "#probe/1/events",
                                  "#probe/1/outstanding",
                                  "#proc/self/comm",
                                  "#none",
                                  "#",
                                  "#tmp.x",
                                  "/bin/none/x",
                                  "/etc/profile/x",
                                  "//tmp///fuzz//a//",
                                  "/tmp/fuzz/a/",
                                  "/tmp/fuzz/\377\1%s",
                                  kName255,
                                  kName256,
                                  kLongPath,
                                  kTooLong,
                                  "#p9",
                                  "/host",
                                  "#random/urandom",
                                  "/proc/uptime",
                                  "/proc/version",
                                  "/proc/loadavg",
                                  "/mem",
                                  "/tmp/fuzz/b/b",
                                  "/tmp/fuzz/b/..",
                                  "/dev/ptmx",
                                  "/dev/pts",
                                  "/dev/pts/0",
                                  "/dev/pts/1",
                                  "/dev/tty",
                                  "/dev/fd",
                                  "/dev/fd/3",
                                  "/dev/stdin",
                                  "/dev/full",
                                  "#pty",
                                  "/dev/fd/4",
                                  "/dev/fd/5",
                                  "/dev/fd/6",
                                  "x",
                                  "a/x",
                                  "../x",
                                  "a/..",
                                  "../b/../a",
                                  "/tmp/fuzz/p",
                                  "/tmp/fuzz/q"};
constexpr string_view kPlaces[] = {"/tmp/fuzz/a", "/tmp/fuzz/b", "/tmp/fuzz/a/a", "/tmp/fuzz/d",
                                   "/tmp/fuzz/x"};

// Targets of symbolic links. They lead into #tmp, so that a bind of root through a link, also
// through another user's, does not change the namespace of other processes.
constexpr string_view kTargets[] = {"/tmp/fuzz/a",
                                    "/tmp/fuzz/b",
                                    "/tmp/fuzz/a/a",
                                    "/tmp/fuzz/x",
                                    "/tmp/fuzz/d",
                                    "a",
                                    "b",
                                    "a/b",
                                    "../a",
                                    kName255,
                                    kTooLong,
                                    "",
                                    "none",
                                    "b/../a",
                                    "/tmp/fuzz/a/../b",
                                    "/tmp/fuzz/b/a/../../a/b/../../b",
                                    "../b/../b",
                                    kThroughP,
                                    kThroughQ};

constexpr string_view kLeaks[] = {"#debug/leaky/leak"};

// Data to write: valid and almost valid commands for control files, and contents of programs.
constexpr char kElf[] =
    "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\76\0\1\0\0\0\0\0\100\0\0\0\0\0\100\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\100\0\70\0\1\0\0\0\0\0\0\0"
    "\1\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\0\0\100\0\0\0\0\0\0\0\100\0\0\0\0\0"
    "\200\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\20\0\0\0\0\0\0\353\376";
constexpr string_view kData[] = {"x",
                                 "\n",
                                 "nonsense\n",
                                 "start\n",
                                 "stop\n",
                                 "reset\n",
                                 "mark\n",
                                 "start depth=3 min=16\n",
                                 "start sample=1000\n",
                                 "start pid=1\n",
                                 "start frees\n",
                                 "start depth=99999999999999999999\n",
                                 "settle\n",
                                 "reap\n",
                                 "scan\n",
                                 "check\n",
                                 "nocheck\n",
                                 "stop\nreset\nstart\n",
                                 "count pipe_*\n",
                                 "count sys_getpid sys_close\n",
                                 "event sys_getpid\n",
                                 "event+return chan_*\n",
                                 "alloc kmalloc size=1\nfree kfree address=1\n",
                                 "alloc kmalloc size=7\n",
                                 "watch memory\n",
                                 "stacks both\ndepth 61\nprocesses\n",
                                 "count /bin/proctest:401000:main\n",
                                 "clear\n",
                                 "depth 0\n",
                                 "kill\n",
                                 "term\n",
                                 "stop",
                                 "cont",
                                 "usr1",
                                 "32",
                                 "-1",
                                 "#!/bin/none\n",
                                 "#!/bin/true\nx",
                                 "#!/tmp/fuzz/x\n",
                                 "#! \n",
                                 string_view(kElf, sizeof kElf),
                                 "%s%n\377\1",
                                 "limit 1x\n"};

// The entries of pool S, in this order.
struct Structures {
  abi_sigaction actions[8];
  abi_timespec times[6];
  uint64_t masks[4];
  abi_pollfd polls[256];
  abi_pollfd few_polls[4];
  abi_termios modes[2];
  int groups[4];
  abi_itimerspec timers[6];
  abi_sigevent events[4];
  abi_stack stacks[3];
  abi_rlimit limits[4];
  abi_flock locks[8];
  abi_thread threads[6];
};
Structures structures;

// A part of pool S: structures of one kind, or of several kinds that no argument asks for (0).
struct Part {
  char kind;
  const void* first;
  size_t size, count;
};
template <typename T, size_t N>
constexpr Part part(char kind, const T (&array)[N]) {
  return {kind, array, sizeof(T), N};
}
constexpr Part kParts[] = {
    part(0, structures.actions),
    part('T', structures.times),
    part(0, structures.masks),
    {0, structures.polls, sizeof structures.polls, 1},
    {0, structures.few_polls, sizeof structures.few_polls, 1},
    part(0, structures.modes),
    part(0, structures.groups),
    part('I', structures.timers),
    part('N', structures.events),
    part('A', structures.stacks),
    part('U', structures.limits),
    part('F', structures.locks),
    part('H', structures.threads),
};

constexpr size_t kVectors = 7;
char hello[] = "hello", empty[] = "", truth[] = "true", shell[] = "sh", dash_c[] = "-c",
     script[] = "exit 3";
char* vectors[kVectors - 2][4] = {
    {truth, nullptr},
    {shell, dash_c, script, nullptr},
    {empty, hello, nullptr},
    {nullptr},
    {hello, reinterpret_cast<char*>(0x4141414141414141), nullptr},
};
char* endless[12000];  // as arguments, they take more than the limit of 128 KiB

constexpr size_t kBufferSize = 128 << 10;
char buffers[4][kBufferSize] __attribute__((aligned(4096)));
constexpr size_t kBuffers = 6;  // the four buffers, and an address inside each of the first two

// The last three entries of pool Y are the calling thread, an id of no thread, and the id of a
// kernel task (1).
constexpr size_t kThreads = kThreadsToMake + 3;
// Size in bytes. A thread's FS base points to the last 16 bytes of its stack.
constexpr size_t kStackSize = 16 << 10;
char thread_stacks[kThreadsToMake][kStackSize] __attribute__((aligned(16)));

constexpr size_t kAddresses = 8;
constexpr uint64_t kMapBase = 0x20000000;

char* last_page = nullptr;  // the page after this page cannot be accessed
char* read_only = nullptr;
constexpr uint64_t kHostile[] = {
    0,
    1,
    0x10000000000,   // not mapped
    0x7ffffffff000,  // above user space
    0x7fffffffffff,
    0x800000000000,  // not canonical
    0x4141414141414141,
    0xffff800000001000,  // the direct map
    0xffffc00000001000,  // kernel stacks
    0xffffffff80200000,  // the kernel
    static_cast<uint64_t>(-8),
    static_cast<uint64_t>(-1),
};
constexpr size_t kMoreHostile = 4;

enum Process : uint64_t {
  kSelf,
  kChild,
  kGroup,
  kMinusSelf,
  kNobody,
  kLeast,
  kInit,
  kParent,
  kAll,
  kProcesses
};

// The signal handler in structures.actions[]. It makes a system call.
void on_signal(int) {
  STELE_CALL(getppid);
}

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

struct Bytes {
  const void* data;
  size_t size;
};
Bytes structure(size_t index) {
  const Part* part = kParts;
  while (index >= part->count) index -= part++->count;
  return {static_cast<const char*>(part->first) + index * part->size, part->size};
}

uint64_t process(size_t index, const Caller& caller) {
  const int self = STELE_CALL(getpid);
  // As root, signals to kParent or kAll would reach the fuzzer itself.
  if (caller.uid == 0 && (index == kParent || index == kAll)) index = kSelf;
  switch (index) {
    case kSelf:
      return static_cast<uint64_t>(self);
    case kChild:
      return static_cast<uint64_t>(caller.last_child ? caller.last_child : self);
    case kGroup:
      return 0;
    case kMinusSelf:
      return static_cast<uint64_t>(-self);
    case kNobody:
      return 99999;
    case kLeast:
      return static_cast<uint64_t>(INT32_MIN);
    case kInit:
      return 1;
    case kParent:
      return static_cast<uint64_t>(STELE_CALL(getppid));
    default:
      return static_cast<uint64_t>(-1);
  }
}

// Returns the thread id for an entry of pool Y. When a program makes thread i, the kernel writes
// the thread's id to the start of buffers[i].
uint64_t thread(size_t index) {
  if (index < kThreadsToMake) {
    uint32_t id;
    memcpy(&id, buffers[index], sizeof id);
    return id;
  }
  if (index == kThreadsToMake) return static_cast<uint64_t>(STELE_CALL(gettid));
  return index == kThreadsToMake + 1 ? UINT32_MAX : 1;
}

uint64_t hostile(size_t index) {
  if (index < std::size(kHostile)) return kHostile[index];
  switch (index - std::size(kHostile)) {
    case 0:
      return address_of(last_page) + 4096 - 3;
    case 1:
      return address_of(last_page) + 4096;
    case 2:
      return address_of(read_only);
    default:
      return reinterpret_cast<uint64_t>(&pool_value);  // code
  }
}

}  // namespace

size_t pool_size(char pool) {
  switch (pool) {
    case 'P':
      return std::size(kPaths);
    case 'T':
      return std::size(kPlaces);
    case 'K':
      return std::size(kTargets);
    case 'L':
      return std::size(kLeaks);
    case 'D':
      return std::size(kData);
    case 'B':
      return kBuffers;
    case 'S':
      return pool_structures(0).first;
    case 'V':
      return kVectors;
    case 'X':
      return std::size(kHostile) + kMoreHostile;
    case 'A':
      return kAddresses;
    case 'N':
      return kProcesses;
    case 'Y':
      return kThreads;
    case 'W':
      return 1;
    default:
      return 0;
  }
}

std::string_view pool_path(char pool, size_t index) {
  return pool == 'P' ? kPaths[index] : pool == 'T' ? kPlaces[index] : kLeaks[index];
}

std::string_view pool_data(size_t index) {
  return kData[index];
}

std::string_view pool_link_target(size_t index) {
  return kTargets[index];
}

PoolRange pool_structures(char kind) {
  size_t first = 0;
  for (const Part& part : kParts) {
    if (kind && part.kind == kind) return {first, part.count};
    first += part.count;
  }
  return {first, 0};
}

size_t pool_structure_size(size_t index) {
  return structure(index).size;
}

void make_pools() {
  const auto handler = reinterpret_cast<uint64_t>(&on_signal);
  const auto restorer = reinterpret_cast<uint64_t>(&leakfuzz_sigreturn);
  const abi_sigaction actions[] = {
      {.handler = ABI_SIG_DFL, .mask = 0, .flags = 0, .restorer = 0},
      {.handler = ABI_SIG_IGN, .mask = 0, .flags = 0, .restorer = 0},
      {.handler = handler, .mask = 0, .flags = 0, .restorer = restorer},
      {.handler = handler, .mask = ~uint64_t{0}, .flags = ABI_SA_RESTART, .restorer = restorer},
      {.handler = handler, .mask = 0, .flags = ABI_SA_NODEFER, .restorer = 0},
      {.handler = 0x4141414141414141, .mask = 0, .flags = 0, .restorer = restorer},
      {.handler = 0xffffffff80200000, .mask = 1, .flags = ~uint64_t{0}, .restorer = restorer},
      {.handler = handler,
       .mask = 0,
       .flags = ABI_SA_NOCLDSTOP | ABI_SA_SIGINFO | ABI_SA_ONSTACK,
       .restorer = restorer},
  };
  memcpy(structures.actions, actions, sizeof actions);
  const abi_timespec times[] = {{0, 0},          {0, 1000000},           {-1, 0},
                                {0, 1000000000}, {INT64_MAX, 999999999}, {0, -1}};
  memcpy(structures.times, times, sizeof times);
  const uint64_t masks[] = {0, ~uint64_t{0}, uint64_t{1} << ABI_SIGUSR1,
                            uint64_t{1} << ABI_SIGKILL};
  memcpy(structures.masks, masks, sizeof masks);
  for (int i = 0; i < 256; i++) structures.polls[i] = {.fd = i - 2, .events = -1, .revents = 0};
  for (int i = 0; i < 4; i++)
    structures.few_polls[i] = {.fd = i + 3, .events = ABI_POLLIN, .revents = -1};
  structures.modes[0] = {};
  memset(&structures.modes[1], 0xff, sizeof structures.modes[1]);
  const int groups[] = {0, -1, 1, INT32_MAX};
  memcpy(structures.groups, groups, sizeof groups);
  const abi_itimerspec timers[] = {{{0, 0}, {0, 1000000}}, {{0, 2000000}, {0, 1000000}},
                                   {{0, 0}, {0, 0}},       {{-1, 0}, {INT64_MAX, 999999999}},
                                   {{0, 1}, {0, 1}},       {{0, 0}, {0, 10000000}}};
  memcpy(structures.timers, timers, sizeof timers);
  const abi_sigevent events[] = {
      {.notify = ABI_SIGEV_NONE, .signal = 0, .value = 0},
      {.notify = ABI_SIGEV_SIGNAL, .signal = ABI_SIGRTMIN + 2, .value = 7},
      {.notify = ABI_SIGEV_SIGNAL, .signal = ABI_SIGUSR2, .value = 7},
      {.notify = ABI_SIGEV_THREAD, .signal = -1, .value = 0},
  };
  memcpy(structures.events, events, sizeof events);
  const abi_stack stacks[] = {
      {.base = kMapBase, .flags = 0, .unused = 0, .size = 0x3000},
      {.base = 0, .flags = ABI_SS_DISABLE, .unused = 0, .size = 0},
      {.base = 0xffffffff80200000, .flags = 0, .unused = 0, .size = ABI_MINSIGSTKSZ},
  };
  memcpy(structures.stacks, stacks, sizeof stacks);
  const abi_rlimit limits[] = {{0, ABI_RLIM_INFINITY}, {4, 4}, {1 << 20, 1 << 21}, {2, 1}};
  memcpy(structures.limits, limits, sizeof limits);
  const auto lock = [](int16_t type, int16_t whence, int64_t start, int64_t length) {
    return abi_flock{type, whence, 0, start, length, 0, {}};
  };
  const abi_flock locks[] = {
      lock(ABI_F_WRLCK, 0, 0, 0),  lock(ABI_F_RDLCK, 0, 10, 10),      lock(ABI_F_WRLCK, 2, -1, -5),
      lock(ABI_F_UNLCK, 1, 12, 3), lock(-1, 3, INT64_MAX, INT64_MAX), lock(ABI_F_WRLCK, 0, 0, 1),
      lock(ABI_F_RDLCK, 0, 0, 0),  lock(ABI_F_UNLCK, 0, 0, 0),
  };
  memcpy(structures.locks, locks, sizeof locks);
  for (size_t i = 0; i < std::size(structures.threads); i++) {
    char* const stack = thread_stacks[i % kThreadsToMake];
    char* const tls = stack + kStackSize - 16;
    structures.threads[i] = {.entry = address_of(empty),  // set_thread_entry() replaces it
                             .argument = i,
                             .stack = address_of(tls - 8),
                             .tls = address_of(tls),
                             .id = address_of(buffers[i % kThreadsToMake]),
                             .unblocked = 0};
  }
  structures.threads[kThreadsToMake].id = kHostile[3];
  structures.threads[kThreadsToMake + 1].entry = kHostile[4];
  structures.threads[kThreadsToMake + 2].stack = 0;
  for (char*& text : endless) text = hello;
  const auto map = [](size_t size, int protection) {
    return static_cast<char*>(mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  last_page = map(8192, PROT_READ | PROT_WRITE);
  mprotect(last_page + 4096, 4096, PROT_NONE);
  memset(last_page, 'x', 4096);
  read_only = map(4096, PROT_READ);
}

uint64_t pool_value(char pool, size_t index, const Caller& caller) {
  switch (pool) {
    case 'P':
    case 'T':
    case 'L':
      return address_of(pool_path(pool, index).data());
    case 'K':
      return address_of(pool_link_target(index).data());
    case 'D':
      return address_of(kData[index].data());
    case 'B':
      return index < 4 ? address_of(buffers[index]) : address_of(buffers[index - 4] + 1021);
    case 'S':
      return address_of(structure(index).data);
    case 'V':
      if (index < std::size(vectors)) return address_of(vectors[index]);
      return index == std::size(vectors) ? address_of(endless) : 0;
    case 'X':
      return hostile(index);
    case 'W':
      return static_cast<uint64_t>(ABI_AT_FDCWD);
    case 'Y':
      return thread(index);
    case 'A':
      return index == 0 ? 0 : kMapBase + (index - 1) * 0x1800;  // some are not aligned to a page
    default:
      return process(index, caller);
  }
}

abi_thread* pool_thread(const Argument& argument, size_t* number) {
  const size_t first = pool_structures('H').first;
  if (argument.pool != 'S' || argument.value < first || argument.value >= first + kThreadsToMake)
    return nullptr;
  *number = argument.value - first;
  return &structures.threads[*number];
}

void set_thread_entry(void (*entry)(uint64_t argument)) {
  for (size_t i = 0; i < kThreadsToMake; i++)
    structures.threads[i].entry = reinterpret_cast<uint64_t>(entry);
}

size_t pool_stack_at(uint64_t address) {
  const uint64_t first = address_of(thread_stacks);
  return address >= first && address < first + sizeof thread_stacks
             ? (address - first) / kStackSize + 1
             : 0;
}

size_t pool_stack_offset(uint64_t address) {
  return (address - address_of(thread_stacks)) % kStackSize;
}
