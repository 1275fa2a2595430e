// Tests pseudo-terminals in the kernel, without the C library: permissions, hang-ups, leaks, and
// terminals of sessions.

#include <algorithm>
#include <atomic>
#include <iterator>

#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "proc/job_control.h"
#include "proc/process_impl.h"
#include "tests/ns_world.h"
#include "tests/reach_looks.h"
#include "tests/team.h"
#include "tests/test_program.h"

namespace {

constexpr uint32_t kUser = 1000, kOther = 1001;

// A pseudo-terminal pair that belongs to a user. The slave is unlocked.
class Pair {
 public:
  Pair(const TestNamespace& ns, uint32_t uid) : ns_(ns) {
    master = path_open(ns.context(nullptr, uid), "#pty/ptmx", ABI_O_RDWR, 0).take();
    int number = -1, locked = 0;
    EXPECT(master->device->ioctl(*master, ABI_TCGPTN, &number));
    EXPECT(master->device->ioctl(*master, ABI_TCSPTLCK, &locked));
    format(name, sizeof name, "#pty/pts/%d", number);
  }
  Result<Ref<Chan>> open(uint32_t uid, uint32_t flags = ABI_O_RDWR) {
    return path_open(ns_.context(nullptr, uid), name, flags, 0);
  }

  Ref<Chan> master;
  char name[32];

 private:
  const TestNamespace& ns_;
};

}  // namespace

namespace {

// Writes the address of an object to a terminal, which keeps the bytes for the master.
struct Output {
  Chan* slave;
  Hidden object;
};
void write_address(void* argument) {
  const auto& output = *static_cast<const Output*>(argument);
  uint64_t words[32];
  for (uint64_t& word : words) word = output.object.value();
  EXPECT(output.slave->device->write(*output.slave, reinterpret_cast<const char*>(words),
                                     sizeof(words), 0));
}
void take_object(void* place) {
  *static_cast<Hidden*>(place) = Hidden(kmalloc(192, KM_SLEEP | KM_ZERO));
}
void free_object(void* place) {
  kfree(static_cast<Hidden*>(place)->get());
}

}  // namespace

// Would find a search for unreachable objects that takes what a program has written to a terminal
// for pointers.
KTEST(pty_bytes_are_no_pointers) {
  TestNamespace ns;
  Pair pair(ns, 0);
  Result<Ref<Chan>> slave = pair.open(0);
  EXPECT(slave);
  if (!slave) return;
  abi_termios modes;
  EXPECT((*slave)->device->ioctl(**slave, ABI_TCGETS, &modes));
  modes.oflag = 0;
  EXPECT((*slave)->device->ioctl(**slave, ABI_TCSETS, &modes));
  Candidate candidates[8];
  for (Candidate& candidate : candidates) {
    in_another_task(take_object, &candidate.object);
    Output output{slave->get(), candidate.object};
    in_another_task(write_address, &output);
  }
  look_for(candidates);
  // Stale words on stacks may lead to a few of the objects.
  EXPECT(std::count_if(std::begin(candidates), std::end(candidates),
                       [](const Candidate& one) { return one.found; }) > 4);
  for (Candidate& candidate : candidates) in_another_task(free_object, &candidate.object);
}

KTEST(pty_is_its_makers) {
  LiveCounts live;
  TestNamespace ns;
  Pair pair(ns, kUser);
  EXPECT(fails_with(Errno::EACCES, pair.open(kOther)));
  EXPECT(fails_with(Errno::EACCES, pair.open(kOther, ABI_O_WRONLY)));
  EXPECT(pair.open(kUser) && pair.open(0));
  Result<Ref<Chan>> slave = pair.open(kUser);
  EXPECT(slave);
  if (!slave) return;
  const Credentials other{.uid = kOther, .gid = kOther}, his{.uid = kUser, .gid = kUser};
  EXPECT(fails_with(Errno::EPERM,
                    (*slave)->device->set_attributes(**slave, mode_change(0666), other)));
  EXPECT((*slave)->device->set_attributes(**slave, mode_change(0602), his));
  EXPECT(pair.open(kOther, ABI_O_WRONLY));
  Credentials in_group = other;
  in_group.groups[0] = 5;
  in_group.group_count = 1;
  EXPECT((*slave)->device->set_attributes(**slave, mode_change(0620), his));
  EXPECT(permitted(ABI_S_IFCHR | 0620, kUser, 5, in_group, 2));
  EXPECT(!permitted(ABI_S_IFCHR | 0620, kUser, 5, in_group, 4));
}

KTEST(pty_hangs_up) {
  LiveCounts live;
  TestNamespace ns;
  Pair pair(ns, kUser);
  Ref<Chan> slave = pair.open(kUser).take();
  Device& device = *slave->device;
  EXPECT(device.write(*pair.master, "typed\n", 6, 0) && Bytes(*slave).are("typed\n"));
  EXPECT(device.write(*slave, "said", 4, 0) && Bytes(*pair.master).are("typed\r\nsaid"));
  slave->open_flags |= ABI_O_NONBLOCK;
  char byte;
  EXPECT(fails_with(Errno::EAGAIN, device.read(*slave, &byte, 1, 0)));
  const Ref<Chan> walked = path_walk(ns.context(), pair.name).take();
  pair.master.reset();
  EXPECT(Bytes(*slave).are("") && fails_with(Errno::EIO, device.write(*slave, "x", 1, 0)));
  EXPECT(device.poll(*slave, nullptr) == (ABI_POLLIN | ABI_POLLHUP));
  EXPECT(fails_with(Errno::ENOENT, pair.open(kUser)));
  EXPECT(fails_with(Errno::EIO, device.open(Ref<Chan>(walked), ABI_O_RDWR, Credentials{})));
}

// ^D that was typed in canonical mode is no end of file for a read in another mode.
KTEST(pty_end_of_file_ends_with_canonical_mode) {
  LiveCounts live;
  TestNamespace ns;
  Pair pair(ns, kUser);
  Ref<Chan> slave = pair.open(kUser, ABI_O_RDWR | ABI_O_NONBLOCK).take();
  Device& device = *slave->device;
  abi_termios modes;
  EXPECT(device.ioctl(*slave, ABI_TCGETS, &modes));
  const auto set = [&](bool canonical) {
    modes.lflag = canonical ? modes.lflag | ABI_ICANON : modes.lflag & ~uint32_t{ABI_ICANON};
    EXPECT(device.ioctl(*slave, ABI_TCSETS, &modes));
  };
  const auto type = [&](std::string_view text) {
    EXPECT(device.write(*pair.master, text.data(), text.size(), 0));
  };
  char byte;
  type("\004");
  EXPECT(device.poll(*slave, nullptr) & ABI_POLLIN);
  set(false);
  EXPECT(!(device.poll(*slave, nullptr) & ABI_POLLIN));
  EXPECT(fails_with(Errno::EAGAIN, device.read(*slave, &byte, 1, 0)));
  set(true);
  type("ab\004cd\n\004ef");
  set(false);
  EXPECT(Bytes(*slave, 0, 3).are("abc") && Bytes(*slave).are("d\nef"));
  EXPECT(fails_with(Errno::EAGAIN, device.read(*slave, &byte, 1, 0)));
  set(true);
  type("x\004\004");
  EXPECT(Bytes(*slave).are("x") && Bytes(*slave).are(""));
  EXPECT(fails_with(Errno::EAGAIN, device.read(*slave, &byte, 1, 0)));
}

// The numbers of pairs run out: then no pair can be opened. The number of a closed pair is reused.
KTEST(pty_numbers_run_out) {
  LiveCounts live;
  TestNamespace ns;
  constexpr size_t kMany = 2000;
  static HeldRef<Chan> masters[kMany];
  size_t count = 0;
  for (; count < kMany; ++count) {
    Result<Ref<Chan>> master = path_open(ns.context(), "#pty/ptmx", ABI_O_RDWR, 0);
    if (!master) {
      EXPECT(master.error() == Errno::ENOSPC);
      break;
    }
    masters[count] = master.take().release();
  }
  EXPECT(count >= 1000 && count < kMany);
  const auto close = [](HeldRef<Chan>& master) {
    Ref<Chan>::adopt(std::exchange(master, {})).reset();
  };
  close(masters[7]);
  {
    Pair pair(ns, kUser);
    EXPECT(std::string_view(pair.name) == "#pty/pts/7");
  }
  for (HeldRef<Chan>& master : masters) close(master);
}

// The leader of a session points to the session's terminal, but holds no reference. The pointer is
// cleared when the master is closed.
KTEST(pty_leaves_its_session) {
  LiveCounts live;
  TestNamespace ns;
  Process& leader = *process_create().take();
  EXPECT(thread_create(leader, {}) && process_insert(leader, &test_process_1()));
  {
    const Guard guard(process_lock);
    process_move(leader, leader.pid, leader.pid);
  }
  Process* const before = current_task()->process;
  current_task()->process = &leader;
  current_task()->thread = leader.threads.front();
  {
    Pair pair(ns, 0);
    EXPECT(pair.open(0, ABI_O_RDWR | ABI_O_NOCTTY) && !leader.terminal);
    EXPECT(pair.open(0) && leader.terminal && leader.terminal->job.leader == leader.id());
    // The slave is closed everywhere, but the master is open.
    EXPECT(job_terminal());
    pair.master.reset();
    EXPECT(!leader.terminal && !job_terminal());
    const Guard guard(process_lock);
    EXPECT(leader.signals.has(ABI_SIGHUP));
  }
  current_task()->process = before;
  current_task()->thread = nullptr;
  {
    const Guard guard(process_lock);
    process_remove(leader);
  }
  process_discard(&leader);
}

// Four tasks open pairs, write to the slaves, and close the pairs in different orders, all at once.
KTEST(pty_on_all_cpus) {
  LiveCounts live;
  TestNamespace ns;
  struct World {
    const TestNamespace& ns;
    std::atomic<unsigned> failed{0};
  } world{.ns = ns};
  Team team(
      [](void* argument) {
        auto& world = *static_cast<World*>(argument);
        for (unsigned i = 0; i < 200; ++i) {
          Pair pair(world.ns, kUser);
          Result<Ref<Chan>> slave = pair.open(kUser);
          if (!slave || !pair.master->device->write(**slave, "x", 1, 0)) ++world.failed;
          if (i % 2) pair.master.reset();
        }
      },
      &world);
  for (unsigned i = 0; i < 4; ++i) team.add();
  team.join();
  EXPECT(world.failed == 0);
}
