#include "generate.h"

#include "abi/syscall.h"
#include "calls.h"
#include "pools.h"

namespace {

// The initial programs of the corpus. Their calls depend on each other. Random programs would
// rarely contain such sequences of calls.
constexpr const char* kSeeds[] = {
    "pipe2 B0 0; fork; write 4 D1 40; read 3 B1 40; close 3; close 4; wait4 ffffffffffffffff B0 0 "
    "0",
    "open W0 P16 602 1ff; write 3 D39 b0; close 3; execve P16 V0 V6",
    "open W0 P16 602 1ff; write 3 D36 11; close 3; execve P16 V1 V0",
    "mkdir W0 P1 1ff; open W0 P4 602 1b6; pwrite 3 B1 1000 fff; pread 3 B0 2000 0; ftruncate 3 7; "
    "close "
    "3; "
    "rename W0 P4 W0 P2; unlink W0 P2 0; unlink W0 P1 8",
    "open W0 P3 602 1b6; ftruncate 3 5000; read 3 B0 40; lseek 3 0 2; pread 3 B0 1000 2000; close "
    "3",
    "mkdir W0 P1 1ff; mkdir W0 P2 1ff; bind P21 T0 0; bind P22 T0 2; bind P21 T0 5; open W0 P1 0 "
    "0; "
    "getdents 3 B0 1000; chdir P1; getcwd B0 100; unmount T0",
    "mmap A1 4000 3 32 ffffffff 0; read 0 A1 40; write 0 A1 2000; munmap A2 1000; write 0 A1 4000; "
    "fork; munmap A0 4000",
    "sigaction 1e S2 B0; sigaction 1f S3 0; sigprocmask 1 S16 B1; kill N0 1e; kill N0 1f; "
    "sigprocmask 0 S14 0",
    "fork; kill N1 11; wait4 N1 B0 2 0; kill N1 13; kill N1 9; wait4 N1 B0 0 B1",
    "open W0 P14 0 0; getdents 3 B0 400; fchdir 3; open W0 P13 0 0; getdents 4 B1 1000; lseek 3 0 "
    "0; "
    "getdents 3 X2 1000",
    "open W0 P63 2 0; read 3 B0 40; write 3 D17 d; write 3 D3 6; pipe2 B1 0; write 3 D4 5; open W0 "
    "P66 0 "
    "0; "
    "read 6 B0 1000; close 3",
    "open W0 P57 2 0; write 3 D3 6; mkdir W0 P1 1ff; write 3 D6 5; read 3 B0 4000; write 3 D4 5; "
    "write 3 "
    "D5 6",
    "open W0 P56 2 0; write 3 D3 6; open W0 P60 0 0; read 4 B0 10000; write 3 D4 5; write 3 D5 6",
    "pipe2 B0 4000; fstat 3 B1; poll S19 4 S9 0; fcntl 4 3 0; fcntl 4 4 4000; write 4 B0 3000; "
    "fcntl 3 0 64; dup2 3 6; close 3; close 4; poll S18 100 S8 S14",
    "mkdir W0 P1 1ff; open W0 P16 602 1b6; link W0 P16 W0 P4 0; symlink K2 W0 P2; open W0 P2 2 0; "
    "write 4 D1 5; readlink W0 P2 B0 40; unlink W0 P4 0; stat W0 P2 B1 2; close 4; unlink W0 P2 0",
    "mknod W0 P16 11b6; open W0 P16 4000 0; open W0 P16 4001 0; write 4 D1 5; read 3 B0 40; close "
    "4; "
    "read 3 B0 40; stat W0 P16 B1 0; close 3; unlink W0 P16 0",
    "open W0 P41 1 0; write 3 D31 4; open W0 P39 0 0; read 4 B0 1000; ioctl 0 1 S20",
    "sigaction 22 S2 0; timer_create 4 S33; timer_settime 0 0 S27 B0; timer_gettime 0 B1; "
    "sigsuspend S14; timer_overrun 0; timer_delete 0",
    "sigaction e S3 0; setitimer 0 S26 B0; nanosleep 4 0 S9 B1; setitimer 1 S27 B0; setitimer 0 "
    "S28 B0",
    "mmap A1 4000 3 32 ffffffff 0; sigaltstack S36 B0; sigaction 1e S7 0; sigqueue N0 1e 5; kill "
    "N0 1e; sigaltstack S37 B0",
    "sigprocmask 1 S15 B1; sigqueue N0 22 5; sigqueue N0 22 6; sigpending B0; sigtimedwait S15 B1 "
    "S9; sigtimedwait S15 B1 S8",
    "fork; waitid 1 N1 B0 15 B1; waitid 0 0 B0 4 B1",
    "open W0 P91 2 0; ioctl 3 10 S22; open W0 P93 2 0; ioctl 4 9 0; ioctl 4 8 S22; write 3 D1 2; "
    "read 4 B0 40; write 4 D2 9; read 3 B1 40; open W0 P95 2 0; ioctl 5 2 S20; ioctl 5 a 0; close "
    "3; read 4 B0 40",
    "open W0 P16 202 1b6; open W0 P16 2 0; fcntl 3 8 S43; fcntl 3 8 S44; fork; fcntl 3 9 S45; "
    "fcntl 3 7 S43; flock 3 2; flock 4 6; fcntl 3 8 S46; close 3",
    "thread_create S51; thread_create S52; futex 0 B3 0 0 0; futex 1 B3 1 0 0; pipe2 B1 0; read 3 "
    "B3 40; thread_kill Y0 1e; thread_create S53; futex 0 B3 0 4 S9; thread_exit",
    "thread_create S51; fork; thread_create S52; futex 2 B3 0 0 0; execve P30 V0 V3; thread_kill "
    "Y1 9; thread_exit",
    "thread_create S51; mmap A1 4000 3 32 ffffffff 0; mprotect A1 1000 1; write 0 A1 2000; read 0 "
    "A1 40; munmap A1 4000; thread_create S52; futex 3 A2 1 0 0; sigaction 1e S2 0; thread_kill Y3 "
    "1e; kill N0 13; kill N0 12",
    "rlimit 7 S40 B0; open W0 P23 2 0; dup 3; rlimit 1 S39 0; open W0 P16 202 1b6; write 3 B0 1000",
    // A directory that is somebody's current directory gets another name, and a link takes its
    // place.
    "mkdir W0 P1 1ff; mkdir W0 P5 1ff; chdir P1; thread_create S51; rename W0 P1 W0 P2; symlink "
    "K14 W0 P1; stat W0 P11 B0 0; execve P104 V0 V0; open W0 P13 0 0; unlink W0 P1 0; rename W0 P2 "
    "W0 P1; again c8",
    "mkdir W0 P1 1ff; mkdir W0 P6 1ff; chdir P1; rename W0 P1 W0 P2; symlink K15 W0 P1; execve "
    "P104 V0 V0; access W0 P106 0 0; getcwd B0 100; unlink W0 P1 0; rename W0 P2 W0 P1; again 64",
    "mkdir W0 P109 1ff; chdir P109; apart; mkdir W0 P9 1ff; chdir P9; again 30; open W0 P24 0 0; "
    "fork; apart; rename W0 P109 W0 P110; symlink K18 W0 P109; read 3 B0 20000; unlink W0 P109 0; "
    "rename W0 P110 W0 P109; symlink K17 W0 P110; read 3 B0 20000; unlink W0 P110 0; again 1388; "
    "open W0 P104 0 0; execve P104 V0 V0; again 1388",
    // Threads close what another thread waits for, opens or maps.
    "sigaction e S2 0; open W0 P16 202 1b6; fcntl 3 8 S43; fork; wait4 N1 B0 0 0; setitimer 0 S31 "
    "0; thread_create S51; fcntl 3 9 S43; close 3; yield",
    "open W0 P16 202 1b6; thread_create S51; fcntl 3 9 S43; close 3; open W0 P16 202 1b6; again 1e",
    "open W0 P16 202 1b6; fcntl 3 8 S43; nanosleep 4 0 S9 0; fcntl 3 8 S50; open W0 P16 202 1b6; "
    "flock 4 6; nanosleep 4 0 S9 0; close 4; again 1e",
    "open W0 P16 202 1ff; write 3 D36 c; close 3; thread_create S51; apart; open W0 P16 2 0; dup2 "
    "3 6 0; close 3; close 6; again 1388; open W0 P103 2 0; close 3; close 4; again 1388",
    "open W0 P16 202 1ff; write 3 D36 c; execve P97 V0 V0; open W0 P97 0 0; close 3; execve P101 "
    "V0 V0",
    "open W0 P16 202 1b6; ftruncate 3 4000; thread_create S51; mmap A1 4000 3 11 3 0; touch A1; "
    "ftruncate 3 0; write 3 A1 2000; msync A1 4000 1; ftruncate 3 3000; touch A3; read 3 A1 1000; "
    "munmap A1 3000; again 64",
    "timer_create 4 S32; timer_settime 0 0 S29 0; timer_create 4 S33; timer_settime 1 0 S31 0; "
    "timer_gettime 0 B1; nanosleep 4 0 S9 0; timer_settime 0 0 S30 B0; again 14; timer_delete 1",
    "mkdir W0 P1 1ff; mkdir W0 P2 1ff; thread_create S51; bind P1 T1 2; chdir P2; rename W0 P1 W0 "
    "P17; unmount T1; rename W0 P17 W0 P1; open W0 P6 202 1b6; again 64",
};

constexpr uint64_t kLengths[] = {
    0,           1,      7,       16,      64,      100,        255,
    256,         257,    512,     4095,    4096,    4097,       8192,
    8193,        0xffff, 0x10000, 0x10001, 0x20000, 0x7fffffff, 0x7fffffffffffffff,
    ~uint64_t{0}};
// Sizes of mappings. The sizes that can succeed are small, because a program may touch, and so
// allocate, all pages of a mapping.
constexpr uint64_t kSizes[] = {0,       1,        0x1000,    0x1001,         0x3000,
                               0x10000, 0x200000, 0x1000000, 0x7fffffffffff, ~uint64_t{0}};
constexpr uint64_t kOffsets[] = {0,
                                 1,
                                 7,
                                 0xfff,
                                 0x1000,
                                 0x1001,
                                 0x4000,
                                 0x10000,
                                 0xfffff,
                                 0xfffff000,
                                 0xffffffff,
                                 0x100000000,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 ~uint64_t{0}};
constexpr uint64_t kBoundaries[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    7,
                                    8,
                                    9,
                                    15,
                                    16,
                                    20,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    100,
                                    255,
                                    256,
                                    257,
                                    0x4000,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0x100000000,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    ~uint64_t{0} - 1,
                                    ~uint64_t{0}};
// Invalid descriptors. 255 is not among them: the fuzzer uses it for coverage (execute.h).
constexpr uint64_t kNoDescriptors[] = {40,          254, 256, 1000, 0x7fffffff, 0xffffffff80000000,
                                       ~uint64_t{0}};
constexpr uint64_t kAccess[] = {ABI_O_RDONLY, ABI_O_RDONLY, ABI_O_WRONLY,
                                ABI_O_RDWR,   ABI_O_RDWR,   ABI_O_ACCMODE};
constexpr uint64_t kOpenFlags[] = {ABI_O_APPEND, ABI_O_CREAT,    ABI_O_CREAT,   ABI_O_TRUNC,
                                   ABI_O_EXCL,   ABI_O_NONBLOCK, ABI_O_CLOEXEC, ABI_O_DIRECTORY};
constexpr uint64_t kPipeFlags[] = {0,           0, 0, ABI_O_NONBLOCK, ABI_O_CLOEXEC, ABI_O_APPEND,
                                   ~uint64_t{0}};
constexpr uint64_t kModes[] = {0, 0700, 0755, 0777, 0777, 0777, 01777, 06777, 0400, ~uint64_t{0}};
constexpr uint64_t kAtFlags[] = {0, 0, 0, 1, 2, 4, 16, 18, ~uint64_t{0}};
constexpr uint64_t kRemovals[] = {0, 0, ABI_AT_REMOVEDIR, ABI_AT_REMOVEDIR, 1};
constexpr uint64_t kKinds[] = {ABI_S_IFIFO | 0666, ABI_S_IFIFO | 0600, ABI_S_IFREG | 0644, 0,
                               ABI_S_IFCHR | 0600, ~uint64_t{0}};
constexpr uint64_t kUsers[] = {0, 1, 65534, 65533, 0xffffffff};
constexpr uint64_t kFcntl[] = {0, 0, 1, 2, 3, 4, 7, 8, 9, 14, 5};
constexpr uint64_t kRepetitions[] = {1, 5, 20, 100, 5000};
constexpr uint64_t kPolls[] = {0, 1, 2, 4, 255, 256, 257, ~uint64_t{0}};
constexpr uint64_t kFutexValues[] = {0, 0, 0, 1, 2, 0x7fffffff, 0xffffffff};
constexpr uint64_t kProtections[] = {0, 1, 3, 3, 3, 5, 7, 8, ~uint64_t{0}};
constexpr uint64_t kMapFlags[] = {0x22, 0x22, 0x32, 0x32, 0x21, 1,    1,           0x11,
                                  0x11, 2,    0x12, 0,    0x10, 0x20, ~uint64_t{0}};

}  // namespace

Generator::Generator(uint64_t seed) : random_(seed) {
  for (const CallType& type : call_types()) total_weight_ += type.weight;
  for (const char* text : kSeeds) {
    initial_.push_back(parse_program(std::string("0 ") + text).value());
  }
  corpus_ = initial_;
}

Argument Generator::entry(char pool) {
  return {.pool = pool, .value = random_.below(pool_size(pool))};
}

Argument Generator::structure(char kind) {
  const PoolRange range = pool_structures(kind);
  return {.pool = 'S', .value = range.first + random_.below(range.count)};
}

Argument Generator::argument(char kind) {
  // Descriptors and processes are never boundary numbers: descriptor 255 is the fuzzer's, and root
  // must not signal process -1 (pools.h).
  if (kind != 'f' && kind != 'F' && kind != 'q' && random_.one_in(60))
    return number(random_.of(kBoundaries));
  const bool hostile = random_.one_in(12);
  switch (kind) {
    case 'f':
      return number(hostile             ? random_.of(kNoDescriptors)
                    : random_.one_in(3) ? random_.below(12)
                                        : 3 + random_.below(4));
    case 'p':
      if (hostile) return entry(random_.one_in(2) ? 'X' : 'B');
      return random_.one_in(2) ? Argument{'P', random_.below(21)} : entry('P');
    case 't':
      return entry(hostile ? 'X' : 'T');
    case 'r':
      return entry(hostile ? 'X' : random_.one_in(2) ? 'D' : random_.one_in(2) ? 'B' : 'A');
    case 'w':
      return entry(hostile ? 'X' : random_.one_in(6) ? 'A' : 'B');
    case 's':
      return entry(hostile ? 'X' : random_.one_in(8) ? 'B' : 'S');
    case 'T':
    case 'I':
    case 'N':
    case 'A':
    case 'U':
    case 'H':
      return hostile ? argument('s') : structure(kind);
    case 'L':
      return entry(hostile ? 'X' : 'K');
    case 'v':
      return entry(hostile ? 'X' : 'V');
    case 'a':
      return entry(hostile ? 'X' : 'A');
    case 'n':
      return number(random_.of(kLengths));
    case 'x':
      return number(random_.of(kProtections));
    case 'j':
      return number(random_.of(kMapFlags));
    case 'o':
      return number(random_.of(kOffsets));
    case 'k': {
      uint64_t flags = random_.of(kAccess);
      for (size_t more = random_.below(4); more > 0; more--) flags |= random_.of(kOpenFlags);
      return number(hostile ? random_.word() & 0xffffffff : flags);
    }
    case 'F':
      return random_.one_in(8) ? argument('f') : entry('W');
    case 'E':
      return number(random_.of(kAtFlags));
    case 'R':
      return number(random_.of(kRemovals));
    case 'M':
      return number(random_.of(kKinds));
    case 'd':
      return number(random_.of(kPipeFlags));
    case 'm':
      return number(random_.of(kModes));
    case 'g':
      return number(hostile ? random_.of(kBoundaries) : random_.below(ABI_SIGNAL_COUNT + 1));
    case 'q':
      return entry('N');
    case 'y':
      return entry('Y');
    case 'Q':  // a buffer that threads share; the first three contain ids of threads
      return hostile ? argument('w') : Argument{'B', random_.below(4)};
    case 'G':
      return number(random_.of(kRepetitions));
    case 'Z':
      return number(random_.of(kFutexValues));
    case 'u':
      return number(random_.of(kUsers));
    case 'h':
      return number(random_.below(4));
    case 'c':
      return number(random_.of(kFcntl));
    case 'z':
      return number(random_.below(18));
    case 'e':
      return number(random_.below(32));
    case 'l':
      return number(random_.of(kPolls));
    case 'b':
      return number(hostile ? random_.word() : random_.below(8));
    default:
      return number(random_.of(kBoundaries));
  }
}

Call Generator::call() {
  size_t at = random_.below(total_weight_);
  const CallType* type = call_types().data();
  while (at >= type->weight) at -= type++->weight;
  Call made{.number = type->number, .arguments = {}};
  for (const char kind : type->kinds) made.arguments.push_back(argument(kind));
  for (size_t i = 0; i < made.arguments.size(); i++) fit(made, i);
  return made;
}

// Replaces an argument that must fit another argument, or the call.
void Generator::fit(Call& call, size_t index) {
  const uint64_t which = call.arguments.size() > 1 ? call.arguments[1].value : 0;
  Argument& argument = call.arguments[index];
  switch (call.number) {
    case ABI_SYS_mmap:  // a size
    case ABI_SYS_munmap:
      if (index == 1) argument = number(random_.of(kSizes));
      break;
    case ABI_SYS_fcntl:  // the commands for locks take a structure
      if (index == 2 && which >= ABI_F_GETLK && which <= ABI_F_SETLKW) argument = structure('F');
      break;
    case ABI_SYS_ioctl:  // two requests to a terminal take a number
      if (index == 2 && (which == ABI_TCFLSH || which == ABI_TCXONC))
        argument = number(random_.below(4));
      break;
    default:
      break;
  }
}

Program Generator::fresh() {
  Program program;
  for (size_t count = 8 + random_.below(kMaxCalls - 8); count > 0; count--)
    program.calls.push_back(call());
  return program;
}

void Generator::change(Program& program) {
  std::vector<Call>& calls = program.calls;
  const size_t at = random_.below(calls.size() + 1);
  switch (random_.below(6)) {
    case 0:
      if (calls.size() > 1)
        calls.erase(calls.begin() + static_cast<long>(random_.below(calls.size())));
      break;
    case 1: {  // insert calls of another program
      const Program& other = random_.of(corpus_);
      const size_t from = random_.below(other.calls.size());
      const size_t count = 1 + random_.below(other.calls.size() - from);
      const std::vector<Call> part(other.calls.begin() + static_cast<long>(from),
                                   other.calls.begin() + static_cast<long>(from + count));
      calls.insert(calls.begin() + static_cast<long>(at), part.begin(), part.end());
      break;
    }
    case 2:
    case 3:
      calls.insert(calls.begin() + static_cast<long>(at), call());
      break;
    default: {
      Call& changed = calls[random_.below(calls.size())];
      if (changed.arguments.empty()) break;
      const size_t index = random_.below(changed.arguments.size());
      changed.arguments[index] = argument(call_type(changed.number).kinds[index]);
      fit(changed, index);
      if (index == 1 && changed.number == ABI_SYS_fcntl) fit(changed, 2);
    }
  }
  if (calls.size() > kMaxCalls) calls.resize(kMaxCalls);
}

Program Generator::next(uint32_t uid) {
  Program program;
  if (random_.one_in(4)) {
    program = fresh();
  } else {
    // Changes one of the last 50 programs, any program, or an initial program. Until the corpus is
    // full, the last programs are the newest, and have been changed least. An initial program often
    // stays as it is, because what it does at the same time as others differs each time.
    const size_t newest = std::min<size_t>(corpus_.size(), 50);
    const size_t from = random_.below(3);
    program = from == 0   ? random_.of(corpus_)
              : from == 1 ? corpus_[corpus_.size() - 1 - random_.below(newest)]
                          : random_.of(initial_);
    const size_t changes = from == 2 ? random_.below(3) : 1 + random_.below(5);
    for (size_t i = 0; i < changes; i++) change(program);
  }
  program.uid = uid;
  return program;
}

void Generator::keep(const Program& program) {
  if (corpus_.size() < kMaxKept)
    corpus_.push_back(program);
  else
    corpus_[random_.below(kMaxKept)] = program;
}
