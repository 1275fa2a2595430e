// #pipe: pipes, with and without a name.
//
// A pipe is a ring of bytes with ends that read and ends that write. Each end is an open channel,
// which any number of descriptors share. The pipe call makes a pipe with two ends; the pipe lives
// until both ends are closed. Its ring is freed when the reading end is closed, since nobody can
// read it any more. If the writing end is closed first, the ring stays until the reading end is
// closed, so that its bytes can still be read.
//
// A FIFO is a file of another device; to open the file is to open an end of a pipe. The list of
// open FIFOs (`fifos`) maps a file to its pipe, so all names of one file lead to the same pipe. The
// pipe exists from the first open to the last close. An open for reading waits for a writer, and an
// open for writing waits for a reader. The pipe has a channel to the FIFO's file, for stat and
// changes of attributes. While the pipe has this channel, the file's number is not reused.
//
// Writes of up to kAtomic bytes are not mixed with other writes (PIPE_BUF). A pipe's lock guards
// the ring and the counts of ends, and is held while at most one ring, 8 KiB, is copied. fifos_lock
// guards the list of open FIFOs. No task holds fifos_lock and a pipe's lock together.

#include <algorithm>

#include "core/errstr.h"
#include "core/planted.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/pipe_planted.h"
#include "kmalloc.h"
#include "lib/list.h"
#include "lib/string.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "proc/process.h"
#include "proc/user_account.h"
#include "sched/task.h"

namespace {

constexpr size_t kCapacity = 8192;  // a power of two
constexpr size_t kAtomic = 4096;

struct Pipe {
  Spinlock lock{LockRank::kPipe};
  // Under `lock`.
  char* ring GUARDED_BY(lock) = nullptr;
  size_t head GUARDED_BY(lock) = 0;  // index of the oldest byte
  size_t count GUARDED_BY(lock) = 0;
  unsigned reader GUARDED_BY(lock) = 0;  // number of open reading ends
  unsigned writer GUARDED_BY(lock) = 0;  // number of open writing ends
  // Numbers of reading and of writing ends opened so far.
  uint64_t opened_readers GUARDED_BY(lock) = 0;
  uint64_t opened_writers GUARDED_BY(lock) = 0;

  WaitQueue readers, writers;

  // Used only for a FIFO, and guarded by fifos_lock: the pipe's node in `fifos`, and the number of
  // its open ends and of opens under way.
  ListNode link;
  unsigned users = 0;
  // Channel to the FIFO's file, which the first open of the FIFO supplied. Empty for a pipe without
  // a name.
  Ref<Chan> file;
  Charge charge;

  bool is_fifo() const { return static_cast<bool>(file); }
};

constinit ObjectCache<Pipe> pipe_cache;
constinit Spinlock fifos_lock{LockRank::kDevice};
constinit List<Pipe, &Pipe::link> fifos GUARDED_BY(fifos_lock);
constinit kmem_cache* buffer_cache = nullptr;
constinit std::atomic<uint64_t> next_number{1};

// The n-th pipe that the pipe call makes has the qid paths 2n (reading end) and 2n + 1 (writing
// end). An end of a FIFO has the path of the FIFO's file. The qid version of a FIFO's reading end
// is the number of writing ends that had been closed before the reading end was opened. poll() does
// not report the closing of these earlier ends as a hang-up.
bool reads(const Chan& chan) {
  return (chan.open_flags & ABI_O_ACCMODE) != ABI_O_WRONLY;
}
bool writes(const Chan& chan) {
  return (chan.open_flags & ABI_O_ACCMODE) != ABI_O_RDONLY;
}
Pipe& pipe_of(Chan& chan) {
  return *static_cast<Pipe*>(chan.state);
}

// Removes at most `size` bytes from the ring. `pipe.lock` is held.
size_t take(Pipe& pipe, char* buffer, size_t size) REQUIRES(pipe.lock) {
  const size_t length = std::min(size, pipe.count), first = std::min(length, kCapacity - pipe.head);
  memcpy(buffer, pipe.ring + pipe.head, first);
  memcpy(buffer + first, pipe.ring, length - first);
  pipe.head = (pipe.head + length) % kCapacity;
  pipe.count -= length;
  return length;
}

// Adds at most `size` bytes to the ring. `pipe.lock` is held.
size_t put(Pipe& pipe, const char* data, size_t size) REQUIRES(pipe.lock) {
  const size_t length = std::min(size, kCapacity - pipe.count);
  const size_t tail = (pipe.head + pipe.count) % kCapacity,
               first = std::min(length, kCapacity - tail);
  memcpy(pipe.ring + tail, data, first);
  memcpy(pipe.ring, data + first, length - first);
  pipe.count += length;
  return length;
}

class PipeDevice final : public Device {
 public:
  constexpr PipeDevice() : Device("pipe") {}

  Result<Ref<Chan>> walk(Chan&, std::string_view, const Credentials&) override {
    return Errno::ENOENT;
  }
  Result<void> stat(Chan& chan, abi_stat& stat) override {
    if (chan.qid.directory) {
      fill_stat(stat, 0, ABI_S_IFDIR | 0555);
      return {};
    }
    Pipe& pipe = pipe_of(chan);
    if (pipe.is_fifo()) return pipe.file->device->stat(*pipe.file, stat);
    Guard guard(pipe.lock);
    if (planted(Planted::kPipeStat)) static_cast<void>(process_next(0));
    fill_stat(stat, chan.qid.path, ABI_S_IFIFO | 0600, pipe.count);
    return {};
  }
  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials&) override {
    if (wanted_by_open(flags) & 2) return Errno::EISDIR;
    chan->is_open = true;
    chan->open_flags = flags;
    return chan;
  }
  Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                              const Credentials& who) override {
    Chan* const file = chan.state ? pipe_of(chan).file.get() : nullptr;
    return file ? file->device->set_attributes(*file, change, who)
                : Device::set_attributes(chan, change, who);
  }
  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t) override;
  Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t) override;
  void close(Chan& chan) override;
  uint16_t poll(Chan& chan, PollWaiter* waiter) override;
  bool seekable() const override { return false; }
};

constinit PipeDevice device;

Result<size_t> PipeDevice::read(Chan& chan, char* buffer, size_t size, uint64_t) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (!reads(chan)) return Errno::EBADF;
  if (size == 0) return size_t{0};
  Pipe& pipe = pipe_of(chan);
  Guard guard(pipe.lock);
  if (pipe.count == 0 && pipe.writer && (chan.open_flags & ABI_O_NONBLOCK)) return Errno::EAGAIN;
  TRY(pipe.readers.wait(pipe.lock,
                        [&]() REQUIRES(pipe.lock) { return pipe.count > 0 || !pipe.writer; }));
  const size_t length = take(pipe, buffer, size);
  pipe.writers.wake_all();
  return length;
}

Result<size_t> PipeDevice::write(Chan& chan, const char* buffer, size_t size, uint64_t) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (!writes(chan)) return Errno::EBADF;
  Pipe& pipe = pipe_of(chan);
  planted_pipe_written();
  size_t done = 0;
  Guard guard(pipe.lock);
  while (done < size) {
    const size_t room_wanted = size <= kAtomic ? size - done : 1;
    const auto ready = [&]() REQUIRES(pipe.lock) {
      return kCapacity - pipe.count >= room_wanted || !pipe.reader;
    };
    if (!ready()) {
      if (chan.open_flags & ABI_O_NONBLOCK) return done > 0 ? Result<size_t>(done) : Errno::EAGAIN;
      if (planted(Planted::kPipeKill)) pipe.writers.wait_uninterruptible(pipe.lock, ready);
      Result<void> waited = pipe.writers.wait(pipe.lock, ready);
      if (!waited) return done > 0 ? Result<size_t>(done) : waited.error();
    }
    if (!pipe.reader && !planted(Planted::kPipeReader))
      return done > 0 ? Result<size_t>(done) : Errno::EPIPE;
    done += put(pipe, buffer + done, size - done);
    pipe.readers.wake_all();
  }
  return done;
}

// Counts the ends of one direction: `open` ends exist now, `opened` ends have been opened so far.
struct Ends {
  unsigned open;
  uint64_t opened;
};

// Adds an end that reads, writes or does both. Returns the counts of the other direction before the
// call: of writing ends if the new end reads, otherwise of reading ends.
Ends open_end(Pipe& pipe, bool is_reader, bool is_writer) {
  const Guard guard(pipe.lock);
  const Ends others =
      is_reader ? Ends{pipe.writer, pipe.opened_writers} : Ends{pipe.reader, pipe.opened_readers};
  if (is_reader) {
    ++pipe.reader;
    ++pipe.opened_readers;
    pipe.writers.wake_all();
  }
  if (is_writer) {
    ++pipe.writer;
    ++pipe.opened_writers;
    pipe.readers.wake_all();
  }
  return others;
}

// Removes an end. True if this was the last end of a pipe without a name.
bool close_end(Pipe& pipe, bool is_reader, bool is_writer) {
  char* ring = nullptr;
  bool last;
  {
    const Guard guard(pipe.lock);
    pipe.reader -= is_reader;
    pipe.writer -= is_writer;
    last = pipe.reader == 0 && pipe.writer == 0;
    if (pipe.is_fifo() ? last : pipe.reader == 0) {
      ring = std::exchange(pipe.ring, nullptr);
      pipe.count = 0;
    }
    pipe.readers.wake_all();
    pipe.writers.wake_all();
  }
  if (!planted(Planted::kPipeClose)) kmem_cache_free(buffer_cache, ring);
  return last && !pipe.is_fifo();
}

// Undoes one enter_fifo(), at a close or after a failed open. Frees the pipe if nobody else uses
// it.
void leave_fifo(Pipe& pipe) {
  {
    const Guard guard(fifos_lock);
    if (--pipe.users > 0) return;
    pipe.link.unlink();
  }
  pipe_cache.destroy(&pipe);
}

void PipeDevice::close(Chan& chan) {
  if (chan.qid.directory || !chan.state) return;
  Pipe& pipe = pipe_of(chan);
  const bool is_fifo = pipe.is_fifo();
  const bool last = close_end(pipe, reads(chan), writes(chan));
  if (last) pipe_cache.destroy(&pipe);
  if (last) planted_pipe_ended();
  if (!last && is_fifo) leave_fifo(pipe);
}

uint16_t PipeDevice::poll(Chan& chan, PollWaiter* waiter) {
  if (chan.qid.directory) return ABI_POLLIN;
  Pipe& pipe = pipe_of(chan);
  if (waiter && writes(chan)) waiter->wait_on(pipe.writers);
  if (waiter && reads(chan)) waiter->wait_on(pipe.readers);
  Guard guard(pipe.lock);
  uint16_t ready = 0;
  if (writes(chan)) {
    if (pipe.reader == 0) ready |= ABI_POLLOUT | ABI_POLLERR;
    if (kCapacity - pipe.count >= kAtomic) ready |= ABI_POLLOUT;
  }
  if (reads(chan)) {
    if (pipe.count > 0) ready |= ABI_POLLIN;
    if (pipe.writer == 0 && static_cast<uint32_t>(pipe.opened_writers) != chan.qid.version)
      ready |= ABI_POLLHUP;
  }
  return ready;
}

// Returns a new pipe without a ring. ENOMEM; ENFILE if the user has too many.
Result<Pipe*> make_pipe() {
  Charge charge = TRY(charge_current(Charged::kPipe));
  Pipe* const pipe = TRY(pipe_cache.make(KM_SLEEP));
  pipe->charge = std::move(charge);
  return pipe;
}

// Returns the pipe of the FIFO `file`, and counts the caller in its `users`. ENOMEM.
Result<Pipe*> enter_fifo(Ref<Chan> file) {
  Pipe* fresh = TRY(make_pipe());
  Pipe* found = nullptr;
  {
    const Guard guard(fifos_lock);
    for (Pipe& pipe : fifos)
      if (pipe.file->device == file->device && pipe.file->qid == file->qid) found = &pipe;
    if (!found) {
      found = std::exchange(fresh, nullptr);
      found->file = std::move(file);
      fifos.push_back(*found);
    }
    ++found->users;
  }
  if (fresh) pipe_cache.destroy(fresh);
  return found;
}

// Allocates the pipe's ring if the pipe has none. ENOMEM.
Result<void> bring_ring(Pipe& pipe) {
  char* ring = static_cast<char*>(kmem_cache_alloc(buffer_cache, KM_SLEEP));
  if (!ring) return Errno::ENOMEM;
  {
    const Guard guard(pipe.lock);
    if (!pipe.ring) {
      pipe.ring = std::exchange(ring, nullptr);
      pipe.head = pipe.count = 0;
    }
  }
  kmem_cache_free(buffer_cache, ring);
  return {};
}

// Waits for an open of the other direction. Returns once an end of that direction is open, or more
// than `before` ends of that direction have been opened so far. If `may_wait` is false, returns at
// once, with ENXIO for a writer without readers. EINTR.
Result<void> wait_for_other_end(Pipe& pipe, bool is_reader, uint64_t before, bool may_wait) {
  const Guard guard(pipe.lock);
  if (!is_reader && !may_wait && pipe.reader == 0)
    return fail(Errno::ENXIO, "nobody has the FIFO open for reading");
  if (!may_wait) return {};
  return (is_reader ? pipe.readers : pipe.writers).wait(pipe.lock, [&]() REQUIRES(pipe.lock) {
    return is_reader ? pipe.writer > 0 || pipe.opened_writers != before
                     : pipe.reader > 0 || pipe.opened_readers != before;
  });
}

}  // namespace

Result<PipeEnds> pipe_create() {
  const uint64_t number = next_number.fetch_add(1, std::memory_order_relaxed);
  // The channels get the pipe as their state at the end, when nothing can fail any more. If an
  // error occurs earlier, the channels have no state, so their release does not touch the pipe.
  Ref<Chan> reader =
      TRY(Chan::create(&device, {.path = 2 * number, .version = 0, .directory = false}));
  Ref<Chan> writer =
      TRY(Chan::create(&device, {.path = 2 * number + 1, .version = 0, .directory = false}));
  Pipe* const pipe = TRY(make_pipe());
  if (Result<void> ring = bring_ring(*pipe); !ring) {
    pipe_cache.destroy(pipe);
    return ring.error();
  }
  open_end(*pipe, true, true);
  reader->state = writer->state = pipe;
  reader->is_open = writer->is_open = true;
  reader->open_flags = ABI_O_RDONLY;
  writer->open_flags = ABI_O_WRONLY;
  return PipeEnds{std::move(reader), std::move(writer)};
}

Result<Ref<Chan>> fifo_open(Ref<Chan> file, uint32_t flags, const Credentials& who) {
  abi_stat stat;
  TRY(file->device->stat(*file, stat));
  const uint32_t access = flags & ABI_O_ACCMODE;
  const bool is_reader = access != ABI_O_WRONLY, is_writer = access != ABI_O_RDONLY;
  if (!permitted(stat.mode, stat.uid, stat.gid, who, (is_reader ? 4 : 0) | (is_writer ? 2 : 0)))
    return Errno::EACCES;
  if (flags & kOpenToExecute) return Errno::EACCES;
  Ref<Chan> chan =
      TRY(Chan::create(&device, {.path = file->qid.path, .version = 0, .directory = false}));
  Pipe& pipe = *TRY(enter_fifo(std::move(file)));
  const Ends others = open_end(pipe, is_reader, is_writer);
  if (is_reader) chan->qid.version = static_cast<uint32_t>(others.opened - others.open);
  // From here on the release of the channel closes the end and calls leave_fifo().
  chan->state = &pipe;
  chan->open_flags = flags;
  TRY(bring_ring(pipe));
  if (is_reader != is_writer)
    TRY(wait_for_other_end(pipe, is_reader, others.opened, !(flags & ABI_O_NONBLOCK)));
  chan->is_open = true;
  return chan;
}

void pipe_device_init() {
  pipe_cache.init("pipe");
  buffer_cache = kmem_cache_create("pipe_buffer", kCapacity, 0, KMC_NOPOINTERS, nullptr, nullptr,
                                   nullptr, nullptr);
  if (!buffer_cache) panic_no_cache("pipe_buffer");
  device_register(&device);
}
