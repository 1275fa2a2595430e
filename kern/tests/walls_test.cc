// Permissions on processes and terminals, and device operations while a signal is pending.

#include <atomic>

#include "arch/x86_64/time.h"
#include "core/ktest.h"
#include "core/user_memory.h"
#include "drivers/dev/terminal.h"
#include "proc/job_control.h"
#include "proc/process_impl.h"
#include "tests/ns_world.h"
#include "tests/team.h"
#include "tests/test_program.h"

namespace {

// A process that never runs.
class IdleProcess {
 public:
  explicit IdleProcess(uint32_t uid) : process_(*process_create().take()) {
    EXPECT(thread_create(process_, {}));
    process_.who = {uid, uid};
  }
  ~IdleProcess() {
    leave();
    process_discard(&process_);
  }
  // Gets a PID.
  void enter() { enter_below(test_process_1()); }
  void enter_below(Process& parent) {
    EXPECT(process_insert(process_, &parent));
    is_in_ = true;
  }
  void leave() {
    if (!std::exchange(is_in_, false)) return;
    const Guard guard(process_lock);
    process_remove(process_);
  }
  void move(uint32_t group, uint32_t session) {
    const Guard guard(process_lock);
    process_move(process_, group, session);
  }
  bool has(int signal) {
    const Guard guard(process_lock);
    return process_.signals.has(signal);
  }
  Process* operator->() { return &process_; }

 private:
  Process& process_;
  bool is_in_ = false;
};

// While an EndingTask exists, the test's task belongs to a process that is ending.
class EndingTask {
 public:
  EndingTask() {
    process_->state = ProcessState::kExiting;
    current_task()->process = process_.operator->();
    current_task()->thread = process_->threads.front();
  }
  ~EndingTask() {
    current_task()->process = nullptr;
    current_task()->thread = nullptr;
    process_->state = ProcessState::kAlive;
  }

 private:
  IdleProcess process_{0};
};

constexpr uint32_t kUser = 1000;

Ref<Chan> open_ctl(const PathContext& context, uint32_t pid) {
  char path[32];
  format(path, sizeof path, "#proc/%u/ctl", pid);
  Result<Ref<Chan>> chan = path_open(context, path, ABI_O_WRONLY, 0);
  EXPECT(chan);
  return chan.take();
}

}  // namespace

KTEST(walls_ctl_is_of_one_process) {
  TestNamespace ns;
  IdleProcess his(kUser), roots(0);
  his.enter();
  const uint32_t pid = his->pid;
  const Ref<Chan> ctl = open_ctl(ns.context(nullptr, kUser), pid);
  EXPECT(ctl->device->write(*ctl, "term", 4, 0) && his.has(ABI_SIGTERM));
  his.leave();
  EXPECT(fails_with(Errno::ESRCH, ctl->device->write(*ctl, "kill", 4, 0)));
  // Repeat until the PID is reused.
  do {
    roots.leave();
    roots.enter();
  } while (roots->pid != pid);
  EXPECT(fails_with(Errno::ESRCH, ctl->device->write(*ctl, "kill", 4, 0)));
  EXPECT(!roots.has(ABI_SIGKILL));
  abi_stat stat;
  EXPECT(fails_with(Errno::ENOENT, ctl->device->stat(*ctl, stat)));
}

// An open file keeps the rights of its opener.
KTEST(walls_ctl_has_its_openers_rights) {
  TestNamespace ns;
  IdleProcess process(kUser);
  process.enter();
  const Ref<Chan> his = open_ctl(ns.context(nullptr, kUser), process->pid),
                  roots = open_ctl(ns.context(), process->pid);
  EXPECT(his->opener.uid == kUser && roots->opener.uid == 0);
  process->who = {0, 0};
  EXPECT(fails_with(Errno::EPERM, his->device->write(*his, "kill", 4, 0)));
  EXPECT(!process.has(ABI_SIGKILL));
  EXPECT(roots->device->write(*roots, "kill", 4, 0) && process.has(ABI_SIGKILL));
}

KTEST(walls_typed_signals_have_the_rights_of_who_chose_the_foreground) {
  IdleProcess leader(0), his(kUser), roots(0), elsewhere(kUser);
  for (IdleProcess* process : {&leader, &his, &roots, &elsewhere}) process->enter();
  const uint32_t session = leader->pid, group = his->pid;
  leader.move(session, session);
  his.move(group, session);
  roots.move(group, session);
  // `elsewhere` is in the group but in another session, which no POSIX call permits.
  elsewhere.move(group, elsewhere->session);
  ForegroundJob job{.leader = leader->id(), .group = group, .who = {kUser, kUser}};
  job_signal(job, ABI_SIGINT);
  EXPECT(his.has(ABI_SIGINT) && !roots.has(ABI_SIGINT) && !elsewhere.has(ABI_SIGINT));
  job.who = {};
  job_signal(job, ABI_SIGQUIT);
  EXPECT(his.has(ABI_SIGQUIT) && roots.has(ABI_SIGQUIT) && !elsewhere.has(ABI_SIGQUIT));
  // The session has ended.
  leader.leave();
  job_signal(job, ABI_SIGTSTP);
  EXPECT(!his.has(ABI_SIGTSTP));
}

// Threads of one process fork at the same time, and another thread of it takes the signals.
KTEST(walls_a_fork_takes_what_comes_to_the_group) {
  IdleProcess parent(0), first(0), second(0);
  parent.enter();
  parent.move(parent->pid, parent->session);
  Thread& thread = *parent->threads.front();
  const auto send = [&](int32_t to, int signal) {
    EXPECT(process_signal(to, signal, {}));
    const Guard guard(process_lock);
    SignalQueue dropped;
    parent->signals.discard(signal_bit(signal), dropped);
  };
  const auto alone = static_cast<int32_t>(parent->pid), group = -alone;
  EXPECT(process_begin_fork(thread, *first.operator->()));
  {
    IdleProcess fails(0);
    EXPECT(process_begin_fork(thread, *fails.operator->()));
  }
  send(alone, ABI_SIGUSR1);
  send(group, ABI_SIGUSR2);
  EXPECT(process_begin_fork(thread, *second.operator->()));
  send(group, ABI_SIGTERM);
  first.enter_below(*parent.operator->());
  EXPECT(!first.has(ABI_SIGUSR1) && first.has(ABI_SIGUSR2) && first.has(ABI_SIGTERM));
  EXPECT(first->threads.front()->task->interrupted && first->group == parent->group);
  send(group, ABI_SIGTSTP);
  send(group, ABI_SIGCONT);
  send(group, ABI_SIGCHLD);  // ignored by default
  send(group, ABI_SIGHUP);
  second.enter_below(*parent.operator->());
  EXPECT(!second.has(ABI_SIGUSR2) && second.has(ABI_SIGTERM) && second.has(ABI_SIGHUP));
  EXPECT(!second.has(ABI_SIGTSTP) && !second.has(ABI_SIGCHLD));
  // A signal that waits for the thread is taken first, and the fork begins again.
  IdleProcess late(0);
  EXPECT(process_signal(alone, ABI_SIGINT, {}));
  EXPECT(fails_with(Errno::EINTR, process_begin_fork(thread, *late.operator->())));
  second.leave();
  first.leave();
}

// A device whose reads wait until the reading process is ending.
class SilentDevice final : public EmptyDevice {
 public:
  constexpr SilentDevice() : EmptyDevice("silent") {}
  Result<size_t> read(Chan&, char*, size_t, uint64_t) override {
    reads++;
    while (!process_is_ending()) task_yield();
    return Errno::EINTR;
  }

  std::atomic<unsigned> reads{0};
};

KTEST(walls_a_fault_in_a_call_ends_with_the_process) {
  constexpr uint64_t kAddress = 0x10000000;
  static constinit SilentDevice device;
  static std::atomic<bool> has_failed;
  has_failed = false;
  Process& parent = test_process_1();
  Process& process = *process_create().take();
  process.space = AddressSpace::create().take();
  EXPECT(process.space->add_region(kAddress, kAddress + kPageSize, ABI_PROT_READ,
                                   Chan::create(&device, {}).take(), 0, kPageSize));
  const auto body = [](void*) {
    uint64_t word;
    has_failed = !copy_from_user(&word, kAddress, sizeof word);
    process_exit(exited_status(0));
  };
  Task& task = *thread_create(process, {}).take()->task;
  task.entry = body;
  EXPECT(process_insert(process, &parent));
  const ProcessId id = process.id();
  task_start(&task);
  while (device.reads == 0) task_yield();
  EXPECT(process_signal(id, ABI_SIGTERM, Credentials{}));
  const Nanoseconds end = monotonic_now() + Nanoseconds{5'000'000'000};
  while (!has_failed && monotonic_now() < end) task_yield();
  EXPECT(has_failed && device.reads <= 2);
  static_cast<void>(process_signal(id, ABI_SIGKILL, Credentials{}));
  wait_for_probetest(id.pid);
}

// A terminal that accepts all output.
class Screen final : public Terminal {
 public:
  constexpr Screen() : Terminal(typed_) {}
  uint32_t number() const override { return 0; }
  uint32_t owner() const override { return 0; }
  Result<Ref<Chan>> open(uint32_t) override { return Errno::EIO; }

 private:
  void send(const char*, size_t) override {}
  void end() override {}

  static inline constinit uint8_t typed_[kLineSize] = {};
};

KTEST(walls_long_writes_look_at_signals) {
  TestNamespace ns;
  static constinit Screen terminal;
  static const char text[16 << 10] = {};
  EXPECT(*terminal.write(text, sizeof text, false, 0) == sizeof text);
  current_task()->interrupted = true;
  EXPECT(*terminal.write(text, sizeof text, false, 0) < sizeof text);
  // The bytes disturb nobody: the test results go to another port, and scripts/guest uses this one
  // only for scripts.
  Result<Ref<Chan>> port = path_open(ns.context(), "#uart/1", ABI_O_WRONLY, 0);
  if (port) {
    Result<size_t> put = (*port)->device->write(**port, text, sizeof text, 0);
    EXPECT(put && *put < sizeof text);
  }
  current_task()->interrupted = false;
}

// Directories may be large, and paths may be long, because users and file servers decide both. A
// search through a directory or along a path must therefore stop when its process is ending.
KTEST(walls_who_ends_looks_no_further) {
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(path_mkdir(context, "#tmp/a", 0755) && path_mkdir(context, "#tmp/a/b", 0755));
  {
    Result<Ref<Chan>> directory = path_open(context, "#tmp/a/b", ABI_O_RDONLY, 0);
    EXPECT(directory && path_rename(context, "#tmp/a", "#tmp/c"));
    if (!directory) return;
    alignas(8) char buffer[256];
    char name[kMaxPath];
    {
      EndingTask ending;
      EXPECT(fails_with(Errno::EINTR, directory_read(**directory, buffer, sizeof buffer)));
      EXPECT(fails_with(Errno::EINTR, chan_present_name(*context.ns, **directory, name)));
    }
    EXPECT(directory_read(**directory, buffer, sizeof buffer));
    EXPECT(chan_present_name(*context.ns, **directory, name));
  }
  EXPECT(path_remove(context, "#tmp/c/b", true) && path_remove(context, "#tmp/c", true));
}

// Programs expect that a signal does not interrupt a write to a file. A task that waits for the
// file's offset therefore gives up only when its process is ending.
KTEST(walls_who_waits_for_an_offset_gives_up_only_when_it_ends) {
  TestNamespace ns;
  Result<Ref<Chan>> file = path_open(ns.context(), "#tmp/shared", ABI_O_RDWR | ABI_O_CREAT, 0644);
  EXPECT(file);
  if (!file) return;
  struct {
    Chan& chan;
    bool got = false;
  } waiter{.chan = **file};
  Team team(
      [](void* argument) {
        auto& self = *static_cast<decltype(waiter)*>(argument);
        current_task()->interrupted = true;
        OffsetHold hold;
        self.got = hold.take(self.chan).ok();
        current_task()->interrupted = false;
      },
      &waiter);
  {
    OffsetHold hold;
    EXPECT(hold.take(**file));
    team.add();
    while ((*file)->offset_hold == 1) task_yield();  // until the task waits
    current_task()->interrupted = true;
    {
      EndingTask ending;
      OffsetHold second;
      EXPECT(fails_with(Errno::EINTR, second.take(**file)));
    }
    current_task()->interrupted = false;
  }
  team.join();
  EXPECT(waiter.got);
  EXPECT(path_remove(ns.context(), "#tmp/shared", false));
}
