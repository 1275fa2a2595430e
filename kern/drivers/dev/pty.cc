// #pty: pseudo-terminals.
//
// An open of `ptmx` makes a pair: a master, which is the open file, and a slave, `pts/N`. The slave
// is a terminal with the same line discipline as the console. A write to the master types input for
// the programs on the slave, and a read from the master gets their output. The slave belongs to the
// user who made the pair, and can be opened after the master has unlocked the slave.
//
//   master closed        the slave has hung up: reads give 0, writes EIO. The session loses its
//                        terminal; its leader and its foreground group get SIGHUP and SIGCONT. The
//                        name pts/N is gone.
//   last slave closed    when all output has been read, reads from the master give EIO until a
//                        slave is opened again.
//
// A pair is one object (Pty), to which the channels of both ends refer. When the last channel is
// gone, the object is freed and the number N can be reused. The slave's output waits in a ring
// until the master reads. A writer to the slave waits while the ring is full; an echo that does not
// fit is lost. A writer to the master waits while the input buffer is full.
//
// Lock order: table_lock, then the lock of a pair (Terminal::lock_). A task that takes the process
// table's lock holds neither of these two locks.

#include <algorithm>

#include "core/errstr.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/terminal.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/device.h"
#include "proc/user_account.h"

namespace {

constexpr uint32_t kMaxPtys = 1024;  // each takes 13 KiB
// The group `tty` of /etc/group, for programs that write to users' terminals.
constexpr uint32_t kTtyGroup = 5;
constexpr uint32_t kMajor = 136;  // as on Linux

class Pty final : public Terminal {
 public:
  // The bytes of a pair follow the Pty in memory, since they are not searched for pointers.
  struct Bytes {
    char output[4096];
    uint8_t line[kLineSize];
  };

  Pty(uint64_t serial, const Credentials& who, Charge charge)
      : Terminal(bytes_of(this).line), serial_(serial), uid_(who.uid), charge_(std::move(charge)) {}

  uint32_t number() const override { return kMajor << 8 | index_; }
  uint32_t owner() const override { return uid_; }
  Result<Ref<Chan>> open(uint32_t flags) override;

  // The N of pts/N. Set before others can find the pair.
  uint32_t index() const { return index_; }
  void set_index(uint32_t index) { index_ = index; }
  uint64_t serial() const { return serial_; }
  uint32_t mode() EXCLUDES(lock_);
  void set_mode(uint32_t mode) EXCLUDES(lock_);
  bool has_master() EXCLUDES(lock_);

  // Registers that the slave is being opened. Returns the number of hang-ups so far, as opening()
  // does. EIO if the pair is locked or the master is closed.
  Result<uint32_t> open_slave() EXCLUDES(lock_);
  void close_slave(uint32_t opening) EXCLUDES(lock_);
  void close_master() EXCLUDES(lock_);

  Result<size_t> read_output(char* buffer, size_t size, bool nonblock) EXCLUDES(lock_);
  Result<size_t> type(const char* data, size_t size, bool nonblock) EXCLUDES(lock_);
  uint16_t poll_master(PollWaiter* waiter) EXCLUDES(lock_);
  Result<void> ioctl_master(uint32_t request, void* argument) EXCLUDES(lock_);

 private:
  static constexpr size_t kOutputSize = sizeof(Bytes::output);
  static Bytes& bytes_of(Pty* pty) { return *reinterpret_cast<Bytes*>(pty + 1); }

  void send(const char* data, size_t size) override REQUIRES(lock_);
  size_t room() const override REQUIRES(lock_) { return kOutputSize - output_count_; }
  void discard_output() override REQUIRES(lock_);
  void files_lost() override REQUIRES(lock_);
  void end() override;
  // True if a slave was opened, and none is open now.
  bool left_alone() const REQUIRES(lock_) { return was_opened_ && slaves_ == 0; }

  const uint64_t serial_;
  const uint32_t uid_;
  const Charge charge_;
  uint32_t index_ = 0;

  // Under `lock_`.
  char* const output_ GUARDED_BY(lock_) = bytes_of(this).output;  // a ring of kOutputSize bytes
  size_t output_head_ GUARDED_BY(lock_) = 0, output_count_ GUARDED_BY(lock_) = 0;
  uint32_t slaves_ GUARDED_BY(lock_) = 0;  // slaves opened after the last hang-up and still open
  bool was_opened_ GUARDED_BY(lock_) = false;
  bool locked_ GUARDED_BY(lock_) = true;
  bool master_ GUARDED_BY(lock_) = true;  // the master is open
  uint32_t mode_ GUARDED_BY(lock_) = 0620;

  WaitQueue master_readers_;
};

constinit ObjectCache<Pty> pty_cache;
constinit Spinlock table_lock{LockRank::kDevice};
// A pair in the table may have lost its last reference already, so look-ups use Ref::try_take.
constinit Pty* table[kMaxPtys] GUARDED_BY(table_lock);
constinit uint64_t next_serial GUARDED_BY(table_lock) = 1;

uint64_t take_serial() {
  Guard guard(table_lock);
  return next_serial++;
}

// Puts the pair into the table. ENOSPC.
Result<void> enter(Pty& pty) {
  Guard guard(table_lock);
  Pty** const slot = std::find(table, table + kMaxPtys, nullptr);
  if (slot == table + kMaxPtys) return Errno::ENOSPC;
  pty.set_index(static_cast<uint32_t>(slot - table));
  *slot = &pty;
  return {};
}

// Finds the pair with this number if the name pts/N still exists, that is, while the master is
// open.
Ref<SessionTerminal> find(uint64_t index) {
  if (index >= kMaxPtys) return {};
  Guard guard(table_lock);
  Pty* const pty = table[index];
  return pty && pty->has_master() ? Ref<SessionTerminal>::try_take(*pty) : Ref<SessionTerminal>();
}

uint32_t Pty::mode() {
  Guard guard(lock_);
  return ABI_S_IFCHR | mode_;
}
void Pty::set_mode(uint32_t mode) {
  Guard guard(lock_);
  mode_ = mode & 0777;
}
bool Pty::has_master() {
  Guard guard(lock_);
  return master_;
}

Result<uint32_t> Pty::open_slave() {
  Guard guard(lock_);
  if (!master_) return Errno::EIO;
  if (locked_) return fail(Errno::EIO, "the master has not unlocked its slave (unlockpt)");
  ++slaves_;
  was_opened_ = true;
  return hang_ups_;
}

void Pty::close_slave(uint32_t opening) {
  Guard guard(lock_);
  if (opening != hang_ups_) return;
  if (--slaves_ == 0) master_readers_.wake_all();
}

void Pty::files_lost() {
  slaves_ = 0;
  master_readers_.wake_all();
}

void Pty::close_master() {
  {
    Guard guard(lock_);
    master_ = false;
    hang_up_files();
  }
  job_hang_up(*this);
}

void Pty::end() {
  {
    Guard guard(table_lock);
    table[index_] = nullptr;
  }
  job_forget(*this);
  pty_cache.destroy(this);
}

void Pty::send(const char* data, size_t size) {
  const size_t length = std::min(size, room());
  for (size_t i = 0; i < length; ++i)
    output_[(output_head_ + output_count_++) % kOutputSize] = data[i];
  master_readers_.wake_all();
}

void Pty::discard_output() {
  output_count_ = 0;
  writers_.wake_all();
}

Result<size_t> Pty::read_output(char* buffer, size_t size, bool nonblock) {
  if (size == 0) return size_t{0};
  Guard guard(lock_);
  const auto due = [this]() REQUIRES(lock_) { return output_count_ > 0 || left_alone(); };
  if (nonblock && !due()) return Errno::EAGAIN;
  TRY(master_readers_.wait(lock_, due));
  if (output_count_ == 0) return Errno::EIO;
  const size_t length = std::min(size, output_count_);
  for (size_t i = 0; i < length; ++i) buffer[i] = output_[(output_head_ + i) % kOutputSize];
  output_head_ = (output_head_ + length) % kOutputSize;
  output_count_ -= length;
  writers_.wake_all();
  return length;
}

Result<size_t> Pty::type(const char* data, size_t size, bool nonblock) {
  for (size_t done = 0; done < size; ++done) {
    {
      Guard guard(lock_);
      const auto due = [this]() REQUIRES(lock_) { return !is_full(); };
      const Result<void> waited = due()      ? Result<void>()
                                  : nonblock ? Result<void>(Errno::EAGAIN)
                                             : typists_.wait(lock_, due);
      if (!waited) return done > 0 ? Result<size_t>(done) : waited.error();
    }
    receive(static_cast<uint8_t>(data[done]));
  }
  return size;
}

uint16_t Pty::poll_master(PollWaiter* waiter) {
  if (waiter) {
    waiter->wait_on(master_readers_);
    waiter->wait_on(typists_);
  }
  Guard guard(lock_);
  return static_cast<uint16_t>((output_count_ > 0 ? ABI_POLLIN : 0) |
                               (is_full() ? 0 : ABI_POLLOUT) | (left_alone() ? ABI_POLLHUP : 0));
}

Result<void> Pty::ioctl_master(uint32_t request, void* argument) {
  switch (request) {
    case ABI_TCGPGRP: {
      const int group = static_cast<int>(job_any_foreground(*this));
      memcpy(argument, &group, sizeof group);
      return {};
    }
    case ABI_TCSPTLCK: {
      int locked;
      memcpy(&locked, argument, sizeof locked);
      Guard guard(lock_);
      locked_ = locked != 0;
      return {};
    }
    default:
      return change_or_tell(request, argument);
  }
}

// --- The device.

enum File : uint64_t { kRoot, kMaster, kSlaves };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, 0},
    {"ptmx", ABI_S_IFCHR | 0666, 0},
    {"pts", ABI_S_IFDIR | 0555, 0},
};

class PtyDevice final : public TableDevice {
 public:
  constexpr PtyDevice() : TableDevice("pty", kTable) {}

  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override {
    if (chan->qid.path != kMaster) return TableDevice::open(std::move(chan), flags, who);
    Ref<Chan> master = TRY(Chan::create(this, {}));
    Charge charge = TRY(charge_current(Charged::kPty));
    Pty* const pty = TRY(pty_cache.make(KM_SLEEP, take_serial(), who, std::move(charge)));
    if (const Result<void> entered = enter(*pty); !entered) {
      pty_cache.destroy(pty);
      return entered.error();
    }
    master->qid.path = path_of(*pty, true);
    master->keep(Ref<SessionTerminal>::first(pty));
    master->is_open = true;
    master->open_flags = flags;
    return master;
  }
  Result<Ref<Chan>> open_slave(Pty& pty, uint32_t flags) {
    Ref<Chan> chan = TRY(slave(pty));
    TRY(open_file(*chan, flags));
    chan->is_open = true;
    chan->open_flags = flags;
    return chan;
  }
  void close(Chan& chan) override {
    const Ref<SessionTerminal> held = chan.take_kept<SessionTerminal>();
    if (!held || !chan.is_open) return;
    Pty& pty = static_cast<Pty&>(*held);
    if (is_master(chan)) {
      pty.close_master();
    } else {
      pty.close_slave(chan.qid.version);
    }
  }
  Result<void> clone_state(Chan& chan, Chan& copy) override {
    if (is_dynamic(chan)) copy.keep(Ref<SessionTerminal>(&pty_of(chan)));
    return {};
  }
  // Changes only the mode. The owner is always the user who made the pair, and the device stores no
  // times.
  Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                              const Credentials& who) override {
    if (!is_dynamic(chan)) return Device::set_attributes(chan, change, who);
    abi_stat now;
    TRY(dynamic_stat(chan, now));
    AttributeChange allowed = change;
    TRY(check_attributes(now, allowed, who));
    if ((allowed.uid && *allowed.uid != now.uid) || (allowed.gid && *allowed.gid != now.gid))
      return Errno::EPERM;
    if (allowed.mode) pty_of(chan).set_mode(*allowed.mode);
    return {};
  }
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override {
    if (directory.qid.path != kSlaves) return TableDevice::entry(directory, position, entry, name);
    for (; position < kMaxPtys; ++position) {
      const Ref<SessionTerminal> found = find(position);
      if (!found) continue;
      Pty& pty = static_cast<Pty&>(*found);
      fill_stat(entry, path_of(pty, false), pty.mode());
      format(name, 256, "%u", pty.index());
      ++position;
      return {};
    }
    return Errno::ENOENT;
  }
  bool seekable() const override { return false; }

 protected:
  Result<void> open_file(Chan& chan, uint32_t flags) override {
    if (!is_dynamic(chan)) return Errno::EIO;
    Pty& pty = pty_of(chan);
    chan.qid.version = TRY(pty.open_slave());
    pty.opened(flags);
    return {};
  }
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t) override {
    Pty& pty = pty_of(chan);
    const bool nonblock = chan.open_flags & ABI_O_NONBLOCK;
    if (is_master(chan)) return pty.read_output(buffer, size, nonblock);
    return pty.read(buffer, size, nonblock, chan.qid.version);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    Pty& pty = pty_of(chan);
    const bool nonblock = chan.open_flags & ABI_O_NONBLOCK;
    if (is_master(chan)) return pty.type(buffer, size, nonblock);
    return pty.write(buffer, size, nonblock, chan.qid.version);
  }
  Result<void> ioctl_file(Chan& chan, uint32_t request, void* argument) override {
    Pty& pty = pty_of(chan);
    if (request == ABI_TCGPTN) {
      const int number = static_cast<int>(pty.index());
      memcpy(argument, &number, sizeof number);
      return {};
    }
    if (is_master(chan)) return pty.ioctl_master(request, argument);
    return pty.ioctl(request, argument, chan.qid.version);
  }
  uint16_t poll_file(Chan& chan, PollWaiter* waiter) override {
    Pty& pty = pty_of(chan);
    return is_master(chan) ? pty.poll_master(waiter) : pty.poll(chan.qid.version, waiter);
  }
  Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan) override {
    uint64_t number;
    if (directory.qid.path != kSlaves || !parse_file_number(name, kMaxPtys - 1, &number))
      return Errno::ENOENT;
    const Ref<SessionTerminal> found = find(number);
    if (!found) return Errno::ENOENT;
    chan.qid.path = path_of(static_cast<Pty&>(*found), false);
    chan.keep(Ref<SessionTerminal>(found));
    return {};
  }
  Result<void> dynamic_stat(Chan& chan, abi_stat& stat) override {
    Pty& pty = pty_of(chan);
    fill_stat(stat, chan.qid.path, pty.mode());
    stat.uid = pty.owner();
    stat.gid = kTtyGroup;
    return {};
  }

 private:
  // The qid path contains the pair's serial number, because the number N of pts/N is reused.
  static uint64_t path_of(const Pty& pty, bool master) {
    return kDynamic + pty.serial() * 2 + master;
  }
  static bool is_master(const Chan& chan) { return chan.qid.path & 1; }
  static Pty& pty_of(Chan& chan) {
    return static_cast<Pty&>(*static_cast<SessionTerminal*>(chan.state));
  }
  Result<Ref<Chan>> slave(Pty& pty) {
    Ref<Chan> chan = TRY(Chan::create(this, {.path = path_of(pty, false)}));
    chan->keep(Ref<SessionTerminal>(&pty));
    return chan;
  }
};

constinit PtyDevice device;

Result<Ref<Chan>> Pty::open(uint32_t flags) {
  return device.open_slave(*this, flags);
}

}  // namespace

void pty_device_init() {
  pty_cache.init("pty", sizeof(Pty) + sizeof(Pty::Bytes));
  device_register(&device);
}
