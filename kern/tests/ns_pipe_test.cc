// Pipes.

#include <atomic>

#include "core/ktest.h"
#include "ns/namespace.h"
#include "sched/task.h"
#include "tests/ns_world.h"

namespace {

KTEST(ns_pipe_carries_bytes_and_ends) {
  LiveCounts live;
  Result<PipeEnds> made = pipe_create();
  EXPECT(made);
  if (!made) return;
  PipeEnds ends = made.take();
  Device& device = *ends.reader->device;
  char buffer[1];
  EXPECT(device.write(*ends.writer, "hello", 5, 0));
  EXPECT(device.poll(*ends.reader, nullptr) == ABI_POLLIN);
  EXPECT(Bytes(*ends.reader, 0, 3).are("hel"));
  EXPECT(fails_with(Errno::EBADF, device.read(*ends.writer, buffer, 1, 0)));
  EXPECT(fails_with(Errno::EBADF, device.write(*ends.reader, buffer, 1, 0)));
  ends.reader->open_flags |= ABI_O_NONBLOCK;
  ends.writer.reset();
  EXPECT(Bytes(*ends.reader).are("lo"));
  EXPECT(Bytes(*ends.reader).are(""));
  EXPECT(device.poll(*ends.reader, nullptr) == ABI_POLLHUP);
}

KTEST(ns_pipe_without_reader_and_when_full) {
  LiveCounts live;
  Result<PipeEnds> made = pipe_create();
  EXPECT(made);
  if (!made) return;
  PipeEnds ends = made.take();
  Device& device = *ends.writer->device;
  static char block[3000];
  ends.writer->open_flags |= ABI_O_NONBLOCK;
  ends.reader->open_flags |= ABI_O_NONBLOCK;
  EXPECT(fails_with(Errno::EAGAIN, device.read(*ends.reader, block, 1, 0)));
  size_t total = 0;
  while (Result<size_t> length = device.write(*ends.writer, block, sizeof block, 0))
    total += *length;
  EXPECT(total > 0 && total % sizeof block == 0);  // writes of up to 4096 bytes are atomic
  EXPECT(fails_with(Errno::EAGAIN, device.write(*ends.writer, block, sizeof block, 0)));
  ends.reader.reset();
  EXPECT(fails_with(Errno::EPIPE, device.write(*ends.writer, block, 1, 0)));
  EXPECT(device.poll(*ends.writer, nullptr) & ABI_POLLERR);
}

// A writer in another task sends more than the pipe holds, in a pattern that the reader checks.
constexpr size_t kStream = 200'000;
struct Stream {
  Ref<Chan> writer;
  std::atomic<bool> done{false};
};
char pattern_at(size_t i) {
  return static_cast<char>(i * 7 + i / 251);
}
void send_stream(void* argument) {
  auto* const stream = static_cast<Stream*>(argument);
  char block[777];
  for (size_t at = 0; at < kStream;) {
    size_t length = 0;
    for (; length < sizeof block && at + length < kStream; ++length)
      block[length] = pattern_at(at + length);
    Result<size_t> written = stream->writer->device->write(*stream->writer, block, length, 0);
    EXPECT(written && *written == length);
    at += length;
  }
  stream->writer.reset();
  stream->done.store(true, std::memory_order_release);
  task_exit();
}

KTEST(ns_pipe_between_tasks) {
  LiveCounts live;
  Result<PipeEnds> made = pipe_create();
  EXPECT(made);
  if (!made) return;
  PipeEnds ends = made.take();
  Stream stream{.writer = std::move(ends.writer)};
  Result<Task*> task = task_create("stream", send_stream, &stream);
  EXPECT(task);
  if (!task) return;
  task_start(*task);
  size_t at = 0;
  bool right = true;
  for (;;) {
    char buffer[1234];
    Result<size_t> length = ends.reader->device->read(*ends.reader, buffer, sizeof buffer, 0);
    if (!length || *length == 0) break;
    for (size_t i = 0; i < *length; ++i) right = right && buffer[i] == pattern_at(at + i);
    at += *length;
  }
  EXPECT(right);
  EXPECT(at == kStream);
  while (!stream.done.load(std::memory_order_acquire)) task_yield();
  task_drain_dead();
}

}  // namespace
