// #pipe: pipes.
//
// A pipe is a ring of bytes with two ends, each an open channel that any number of descriptors
// share. It lives until both ends are closed; the ring goes with the first end, because from then
// on nothing can be put in, or nobody can take out. What was written before the writing end went
// away can still be read, so in that case the ring stays until the reading end goes too.
//
// Writes of up to kAtomic bytes are not mixed with others' (PIPE_BUF). Everything is under the
// pipe's lock, which is held for the copying of at most one ring, 8 KiB.

#include <algorithm>

#include "core/errstr.h"
#include "core/planted.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/pipe_planted.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "proc/process.h"
#include "sched/task.h"

namespace {

constexpr size_t kCapacity = 8192;  // a power of two
constexpr size_t kAtomic = 4096;

struct Pipe {
  Spinlock lock{LockRank::kPipe};
  // Under `lock`.
  char* ring GUARDED_BY(lock) = nullptr;
  size_t head GUARDED_BY(lock) = 0;  // of the oldest byte
  size_t count GUARDED_BY(lock) = 0;
  bool reader GUARDED_BY(lock) = true;  // the end is open
  bool writer GUARDED_BY(lock) = true;

  WaitQueue readers, writers;
};

constinit ObjectCache<Pipe> pipe_cache;
constinit kmem_cache* buffer_cache = nullptr;
constinit std::atomic<uint64_t> next_number{1};

// A pipe's two files: qid path 2n is the reading, 2n + 1 the writing end.
bool is_writer(const Chan& chan) {
  return chan.qid.path & 1;
}
Pipe& pipe_of(Chan& chan) {
  return *static_cast<Pipe*>(chan.state);
}

// Takes at most `size` bytes out. `pipe.lock` is held.
size_t take(Pipe& pipe, char* buffer, size_t size) REQUIRES(pipe.lock) {
  const size_t length = std::min(size, pipe.count), first = std::min(length, kCapacity - pipe.head);
  memcpy(buffer, pipe.ring + pipe.head, first);
  memcpy(buffer + first, pipe.ring, length - first);
  pipe.head = (pipe.head + length) % kCapacity;
  pipe.count -= length;
  return length;
}

// Puts at most `size` bytes in. `pipe.lock` is held.
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
  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t) override;
  Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t) override;
  void close(Chan& chan) override;
  uint16_t poll(Chan& chan, PollWaiter* waiter) override;
  bool seekable() const override { return false; }
};

constinit PipeDevice device;

Result<size_t> PipeDevice::read(Chan& chan, char* buffer, size_t size, uint64_t) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (is_writer(chan)) return Errno::EBADF;
  if (size == 0) return size_t{0};
  Pipe& pipe = pipe_of(chan);
  Guard guard(pipe.lock);
  if (pipe.count == 0 && pipe.writer && (chan.open_flags & ABI_O_NONBLOCK)) return Errno::EAGAIN;
  TRY(pipe.readers.wait(
      pipe.lock, [&]() NO_THREAD_SAFETY_ANALYSIS { return pipe.count > 0 || !pipe.writer; }));
  const size_t length = take(pipe, buffer, size);
  pipe.writers.wake_all();
  return length;
}

Result<size_t> PipeDevice::write(Chan& chan, const char* buffer, size_t size, uint64_t) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (!is_writer(chan)) return Errno::EBADF;
  Pipe& pipe = pipe_of(chan);
  planted_pipe_written();
  size_t done = 0;
  Guard guard(pipe.lock);
  while (done < size) {
    const size_t room_wanted = size <= kAtomic ? size - done : 1;
    const auto ready = [&]() NO_THREAD_SAFETY_ANALYSIS {
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

void PipeDevice::close(Chan& chan) {
  if (chan.qid.directory || !chan.state) return;
  Pipe& pipe = pipe_of(chan);
  char* ring = nullptr;
  bool last;
  {
    Guard guard(pipe.lock);
    (is_writer(chan) ? pipe.writer : pipe.reader) = false;
    if (!pipe.reader) ring = std::exchange(pipe.ring, nullptr);
    last = !pipe.reader && !pipe.writer;
    pipe.readers.wake_all();
    pipe.writers.wake_all();
  }
  if (!planted(Planted::kPipeClose)) kmem_cache_free(buffer_cache, ring);
  if (last) pipe_cache.destroy(&pipe);
  if (last) planted_pipe_ended();
}

uint16_t PipeDevice::poll(Chan& chan, PollWaiter* waiter) {
  if (chan.qid.directory) return ABI_POLLIN;
  Pipe& pipe = pipe_of(chan);
  if (waiter) waiter->wait_on(is_writer(chan) ? pipe.writers : pipe.readers);
  Guard guard(pipe.lock);
  if (is_writer(chan)) {
    if (!pipe.reader) return ABI_POLLOUT | ABI_POLLERR;
    return kCapacity - pipe.count >= kAtomic ? ABI_POLLOUT : 0;
  }
  return static_cast<uint16_t>((pipe.count > 0 ? ABI_POLLIN : 0) | (pipe.writer ? 0 : ABI_POLLHUP));
}

}  // namespace

Result<PipeEnds> pipe_create() {
  const uint64_t number = next_number.fetch_add(1, std::memory_order_relaxed);
  // Until both channels stand they have no state, so that letting one go does not touch the pipe.
  Ref<Chan> reader =
      TRY(Chan::create(&device, {.path = 2 * number, .version = 0, .directory = false}));
  Ref<Chan> writer =
      TRY(Chan::create(&device, {.path = 2 * number + 1, .version = 0, .directory = false}));
  Pipe* const pipe = TRY(pipe_cache.make(KM_SLEEP));
  char* const ring = static_cast<char*>(kmem_cache_alloc(buffer_cache, KM_SLEEP));
  if (!ring) {
    pipe_cache.destroy(pipe);
    return Errno::ENOMEM;
  }
  {
    Guard guard(pipe->lock);
    pipe->ring = ring;
  }
  reader->state = writer->state = pipe;
  reader->is_open = writer->is_open = true;
  reader->open_flags = ABI_O_RDONLY;
  writer->open_flags = ABI_O_WRONLY;
  return PipeEnds{std::move(reader), std::move(writer)};
}

void pipe_device_init() {
  pipe_cache.init("pipe");
  buffer_cache =
      kmem_cache_create("pipe_buffer", kCapacity, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!buffer_cache) panic_no_cache("pipe_buffer");
  device_register(&device);
}
