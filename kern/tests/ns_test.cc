// Path walk, bind, pipes, files in memory, descriptor tables; and that each leaves nothing behind.

#include <algorithm>
#include <string_view>

#include "cpu.h"
#include "kmalloc.h"
#include "ktest.h"
#include "lib/format.h"
#include "lib/string.h"
#include "namespace.h"
#include "task.h"

namespace {

using namespace std::literals;

// The live objects of the caches that these tests use, counted at construction; the destructor expects the same again.
class LiveCounts {
 public:
  LiveCounts() { count(before_); }
  ~LiveCounts() {
    uint64_t after[kMax];
    count(after);
    for (size_t i = 0; i < used_; ++i) {
      if (after[i] == before_[i]) continue;
      klog("%s: %lu live objects before, %lu after", names_[i], before_[i], after[i]);
      ktest_fail(__FILE__, __LINE__, "every cache has as many live objects as before");
    }
  }

 private:
  static constexpr size_t kMax = 96;

  static bool wanted(std::string_view name) {
    return name.starts_with("kmalloc_") || name == "chan" || name.starts_with("pipe") || name.starts_with("tmp_") ||
           name == "fd_table" || name.starts_with("mount") || name == "namespace";
  }
  void count(uint64_t* live) {
    used_ = 0;
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
      if (!wanted(kmem_cache_name(cache)) || used_ == kMax) continue;
      struct kmem_cache_stats stats;
      kmem_cache_stats(cache, &stats);
      names_[used_] = kmem_cache_name(cache);
      live[used_++] = stats.live;
    }
  }

  const char* names_[kMax] = {};
  uint64_t before_[kMax] = {};
  size_t used_ = 0;
};

// A namespace of its own in which /dev is #null and so on, for root.
class TestNamespace {
 public:
  TestNamespace() {
    Result<Namespace*> made = namespace_create();
    EXPECT(made);
    ns_ = *made;
  }
  ~TestNamespace() { namespace_unref(ns_); }
  PathContext context(Chan* cwd = nullptr, uint32_t uid = 0) const {
    return {.ns = ns_, .cwd = cwd, .who = {uid, uid}};
  }

 private:
  Namespace* ns_ = nullptr;
};

Result<void> write_file(const PathContext& context, std::string_view path, std::string_view text) {
  Ref<Chan> chan = TRY(path_open(context, path, ABI_O_WRONLY | ABI_O_CREAT | ABI_O_TRUNC, 0644));
  EXPECT(TRY(chan->device->write(*chan, text.data(), text.size(), 0)) == text.size());
  return {};
}

bool file_is(const PathContext& context, std::string_view path, std::string_view text) {
  Result<Ref<Chan>> chan = path_open(context, path, ABI_O_RDONLY, 0);
  if (!chan) return false;
  char buffer[256];
  Result<size_t> length = (*chan)->device->read(**chan, buffer, sizeof buffer, 0);
  return length && std::string_view(buffer, *length) == text;
}

// What a read of an open file gives.
struct Bytes {
  Bytes(Chan& chan, uint64_t offset = 0, size_t size = sizeof data) {
    Result<size_t> result = chan.device->read(chan, data, size, offset);
    ok = result.ok();
    if (ok) length = *result;
  }
  bool are(std::string_view text) const { return ok && std::string_view(data, length) == text; }

  bool ok;
  size_t length = 0;
  char data[256];
};

template <typename T>
bool fails_with(Errno error, Result<T> result) {
  return !result && result.error() == error;
}

// The names in a directory, each followed by a space.
std::string_view names_in(const PathContext& context, std::string_view path, char (&text)[512]) {
  Result<Ref<Chan>> chan = path_open(context, path, ABI_O_RDONLY, 0);
  if (!chan) return "not a directory";
  size_t used = 0;
  for (;;) {
    alignas(8) char buffer[128];  // small, so that several reads are needed
    Result<size_t> length = directory_read(**chan, buffer, sizeof buffer);
    if (!length || *length == 0) break;
    for (size_t at = 0; at < *length;) {
      const auto* const entry = reinterpret_cast<const abi_dirent*>(buffer + at);
      at += entry->length;
      used += static_cast<size_t>(format(text + used, sizeof text - used, "%s ", entry->name));
    }
  }
  return {text, used};
}

KTEST(ns_walk_absolute_relative_and_dots) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(path_mkdir(context, "#tmp/walk", 0755));
  EXPECT(path_mkdir(context, "#tmp/walk/inner", 0755));
  EXPECT(write_file(context, "#tmp/walk/inner/file", "text"));
  Result<Ref<Chan>> inner = path_walk(context, "#tmp//walk/./inner/");
  EXPECT(inner);
  if (inner) {
    EXPECT((*inner)->path == "#tmp/walk/inner"sv);
    const PathContext below = ns.context(inner->get());
    EXPECT(file_is(below, "file", "text"));
    EXPECT(file_is(below, "./file", "text"));
    EXPECT(file_is(below, "../inner/file", "text"));
    EXPECT(file_is(below, "../../walk/inner/file", "text"));
    EXPECT(file_is(below, "../../../../walk/inner/file", "text"));
    Result<Ref<Chan>> same = path_walk(below, ".");
    EXPECT(same && (*same)->qid == (*inner)->qid && (*same)->path == "#tmp/walk/inner"sv);
    EXPECT(fails_with(Errno::ENOTDIR, path_walk(below, "file/")));
    EXPECT(fails_with(Errno::ENOTDIR, path_walk(below, "file/..")));
    EXPECT(fails_with(Errno::ENOTDIR, path_walk(below, "file/x")));
    EXPECT(fails_with(Errno::ENOENT, path_walk(below, "missing/../file")));
  }
  EXPECT(fails_with(Errno::ENOENT, path_walk(context, "")));
  EXPECT(fails_with(Errno::ENOENT, path_walk(context, "/no/such/file")));
  EXPECT(fails_with(Errno::ENXIO, path_walk(context, "#nosuchdevice/x")));
  EXPECT(fails_with(Errno::ENXIO, path_walk(context, "#")));
  EXPECT(path_walk(context, "/../.."));
  EXPECT(fails_with(Errno::ENOTEMPTY, path_remove(context, "#tmp/walk/inner", true)));
  EXPECT(path_remove(context, "#tmp/walk/inner/file", false));
  EXPECT(path_remove(context, "#tmp/walk/inner", true));
  EXPECT(path_remove(context, "#tmp/walk", true));
}

KTEST(ns_names_that_are_too_long) {
  LiveCounts live;
  TestNamespace ns;
  char path[kMaxPath + 8];
  std::fill(std::begin(path), std::end(path), 'x');
  EXPECT(fails_with(Errno::ENAMETOOLONG, path_walk(ns.context(), {path, sizeof path})));
  std::string_view("#tmp/").copy(path, 5);
  EXPECT(fails_with(Errno::ENAMETOOLONG, path_walk(ns.context(), {path, 5 + kMaxName + 1})));
  EXPECT(fails_with(Errno::ENAMETOOLONG,
                    path_open(ns.context(), {path, 5 + kMaxName + 1}, ABI_O_WRONLY | ABI_O_CREAT, 0644)));
  EXPECT(write_file(ns.context(), {path, 5 + kMaxName}, "long"));
  EXPECT(path_remove(ns.context(), {path, 5 + kMaxName}, false));
}

KTEST(ns_bind_replaces_and_unmount_uncovers) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(path_mkdir(context, "#tmp/here", 0755));
  EXPECT(path_mkdir(context, "#tmp/there", 0755));
  EXPECT(write_file(context, "#tmp/here/name", "covered"));
  EXPECT(write_file(context, "#tmp/there/name", "covers"));
  EXPECT(path_bind(context, "#tmp/there", "#tmp/here", ABI_BIND_REPLACE));
  EXPECT(file_is(context, "#tmp/here/name", "covers"));
  EXPECT(file_is(context, "#tmp/here/../here/name", "covers"));
  EXPECT(fails_with(Errno::EBUSY, path_remove(context, "#tmp/here", true)));
  EXPECT(fails_with(Errno::EBUSY, path_rename(context, "#tmp/here", "#tmp/elsewhere")));
  Result<Ref<Chan>> cwd = path_walk(context, "#tmp/here");
  EXPECT(cwd && (*cwd)->path == "#tmp/here"sv);
  if (cwd) EXPECT(file_is(ns.context(cwd->get()), "../there/name", "covers"));
  EXPECT(path_bind(context, "#null", "#tmp/here", ABI_BIND_REPLACE));
  EXPECT(file_is(context, "#tmp/here/null", ""));
  EXPECT(path_unmount(context, "#tmp/here"));
  EXPECT(file_is(context, "#tmp/here/name", "covered"));
  EXPECT(fails_with(Errno::EINVAL, path_unmount(context, "#tmp/here")));
  EXPECT(path_bind(context, "#tmp/there/name", "#tmp/here/name", ABI_BIND_REPLACE));
  EXPECT(file_is(context, "#tmp/here/name", "covers"));
  EXPECT(path_unmount(context, "#tmp/here/name"));
  for (const auto path : {"#tmp/here/name"sv, "#tmp/there/name"sv}) EXPECT(path_remove(context, path, false));
  for (const auto path : {"#tmp/here"sv, "#tmp/there"sv}) EXPECT(path_remove(context, path, true));
}

KTEST(ns_bind_refuses_nonsense) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(fails_with(Errno::ENOENT, path_bind(context, "#tmp/missing", "#tmp", ABI_BIND_REPLACE)));
  EXPECT(fails_with(Errno::ENOENT, path_bind(context, "#tmp", "#tmp/missing", ABI_BIND_REPLACE)));
  EXPECT(fails_with(Errno::ENXIO, path_bind(context, "#nosuchdevice", "#tmp", ABI_BIND_REPLACE)));
  EXPECT(fails_with(Errno::EISDIR, path_bind(context, "#null/null", "#tmp", ABI_BIND_REPLACE)));
  EXPECT(fails_with(Errno::ENOTDIR, path_bind(context, "#tmp", "#null/null", ABI_BIND_REPLACE)));
  EXPECT(fails_with(Errno::EINVAL, path_bind(context, "#null/zero", "#null/null", ABI_BIND_AFTER)));
  EXPECT(fails_with(Errno::EINVAL, path_bind(context, "#null", "#tmp", ABI_BIND_AFTER | ABI_BIND_BEFORE)));
  EXPECT(fails_with(Errno::EINVAL, path_bind(context, "#null", "#tmp", 64)));
  EXPECT(fails_with(Errno::EPERM, path_bind(ns.context(nullptr, 7), "#null", "#tmp", ABI_BIND_REPLACE)));
  EXPECT(fails_with(Errno::EPERM, path_unmount(ns.context(nullptr, 7), "#tmp")));
}

KTEST(ns_unions_show_each_name_once_and_make_files_where_allowed) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  for (const auto path : {"#tmp/u"sv, "#tmp/a"sv, "#tmp/b"sv}) EXPECT(path_mkdir(context, path, 0755));
  EXPECT(write_file(context, "#tmp/u/x", "u"));
  EXPECT(write_file(context, "#tmp/a/x", "a"));
  EXPECT(write_file(context, "#tmp/a/y", "a"));
  EXPECT(write_file(context, "#tmp/b/y", "b"));
  EXPECT(write_file(context, "#tmp/b/z", "b"));
  EXPECT(path_bind(context, "#tmp/a", "#tmp/u", ABI_BIND_BEFORE));
  EXPECT(path_bind(context, "#tmp/b", "#tmp/u", ABI_BIND_AFTER));
  EXPECT(file_is(context, "#tmp/u/x", "a"));
  EXPECT(file_is(context, "#tmp/u/y", "a"));
  EXPECT(file_is(context, "#tmp/u/z", "b"));
  char text[512];
  EXPECT(names_in(context, "#tmp/u", text) == ". .. x y z ");
  EXPECT(fails_with(Errno::EPERM, write_file(context, "#tmp/u/new", "n")));
  EXPECT(path_unmount(context, "#tmp/u"));
  EXPECT(path_bind(context, "#tmp/b", "#tmp/u", ABI_BIND_AFTER | ABI_BIND_CREATE));
  EXPECT(file_is(context, "#tmp/u/x", "u"));
  EXPECT(write_file(context, "#tmp/u/new", "n"));
  EXPECT(file_is(context, "#tmp/b/new", "n"));
  EXPECT(path_rename(context, "#tmp/u/new", "#tmp/u/newer"));
  EXPECT(file_is(context, "#tmp/b/newer", "n"));
  EXPECT(path_remove(context, "#tmp/u/newer", false));
  EXPECT(fails_with(Errno::ENOENT, path_walk(context, "#tmp/b/newer")));
  EXPECT(path_unmount(context, "#tmp/u"));
  for (const auto path : {"#tmp/u/x"sv, "#tmp/a/x"sv, "#tmp/a/y"sv, "#tmp/b/y"sv, "#tmp/b/z"sv})
    EXPECT(path_remove(context, path, false));
  for (const auto path : {"#tmp/u"sv, "#tmp/a"sv, "#tmp/b"sv}) EXPECT(path_remove(context, path, true));
}

KTEST(ns_permissions) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context(), user = ns.context(nullptr, 100), other = ns.context(nullptr, 200);
  EXPECT(path_mkdir(root, "#tmp/closed", 0700));
  EXPECT(write_file(root, "#tmp/closed/file", "secret"));
  EXPECT(fails_with(Errno::EACCES, path_walk(user, "#tmp/closed/file")));
  EXPECT(fails_with(Errno::EACCES, path_open(user, "#tmp/closed", ABI_O_RDONLY, 0)));
  EXPECT(fails_with(Errno::EACCES, write_file(user, "#tmp/closed/new", "x")));
  EXPECT(write_file(user, "#tmp/mine", "mine"));
  EXPECT(file_is(other, "#tmp/mine", "mine"));
  EXPECT(fails_with(Errno::EACCES, write_file(other, "#tmp/mine", "theirs")));
  // The root of #tmp is sticky.
  EXPECT(fails_with(Errno::EPERM, path_remove(other, "#tmp/mine", false)));
  EXPECT(fails_with(Errno::EPERM, path_rename(other, "#tmp/mine", "#tmp/theirs")));
  EXPECT(file_is(user, "#tmp/mine", "mine"));
  EXPECT(path_remove(user, "#tmp/mine", false));
  EXPECT(path_remove(root, "#tmp/closed/file", false));
  EXPECT(path_remove(root, "#tmp/closed", true));
}

KTEST(ns_tmp_holes_truncate_and_append) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  Result<Ref<Chan>> opened = path_open(context, "#tmp/file", ABI_O_RDWR | ABI_O_CREAT | ABI_O_EXCL, 0644);
  EXPECT(opened);
  if (!opened) return;
  Chan& chan = **opened;
  Device& device = *chan.device;
  EXPECT(fails_with(Errno::EEXIST, path_open(context, "#tmp/file", ABI_O_RDWR | ABI_O_CREAT | ABI_O_EXCL, 0644)));
  const uint64_t far = 5 * kPageSize + 100;
  Result<size_t> written = device.write(chan, "end", 3, far);
  EXPECT(written && *written == 3);
  abi_stat stat;
  EXPECT(device.stat(chan, stat) && stat.size == far + 3 && stat.nlink == 1);
  EXPECT(Bytes(chan, far - 2).are("\0\0end"sv));
  const Bytes hole(chan, kPageSize);
  EXPECT(hole.length == sizeof hole.data && hole.data[0] == 0 && hole.data[255] == 0);
  // What was cut off does not come back when the file grows again.
  EXPECT(device.truncate(chan, far + 1, {}));
  EXPECT(device.truncate(chan, far + 3, {}));
  EXPECT(Bytes(chan, far).are("e\0\0"sv));
  Result<Ref<Chan>> appending = path_open(context, "#tmp/file", ABI_O_WRONLY | ABI_O_APPEND, 0);
  EXPECT(appending);
  if (appending) EXPECT((*appending)->device->write(**appending, "more", 4, 0));
  EXPECT(Bytes(chan, far + 3).are("more"));
  EXPECT(fails_with(Errno::EFBIG, device.write(chan, "x", 1, uint64_t{1} << 60)));
  EXPECT(fails_with(Errno::EFBIG, device.write(chan, "x", 1, UINT64_MAX)));
  // Removed while open: still there until the last channel is closed.
  EXPECT(path_remove(context, "#tmp/file", false));
  EXPECT(fails_with(Errno::ENOENT, path_walk(context, "#tmp/file")));
  EXPECT(device.stat(chan, stat) && stat.nlink == 0);
  EXPECT(Bytes(chan, far + 3).are("more"));
}

KTEST(ns_tmp_rename) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  for (const auto path : {"#tmp/d"sv, "#tmp/d/e"sv, "#tmp/full"sv}) EXPECT(path_mkdir(context, path, 0755));
  EXPECT(write_file(context, "#tmp/one", "one"));
  EXPECT(write_file(context, "#tmp/two", "two"));
  EXPECT(write_file(context, "#tmp/full/x", "x"));
  EXPECT(path_rename(context, "#tmp/one", "#tmp/two"));
  EXPECT(file_is(context, "#tmp/two", "one"));
  EXPECT(fails_with(Errno::ENOENT, path_rename(context, "#tmp/one", "#tmp/three")));
  EXPECT(path_rename(context, "#tmp/two", "#tmp/two"));
  EXPECT(path_rename(context, "#tmp/two", "#tmp/d/e/three"));
  EXPECT(file_is(context, "#tmp/d/e/three", "one"));
  EXPECT(fails_with(Errno::EINVAL, path_rename(context, "#tmp/d", "#tmp/d/e/d")));
  EXPECT(fails_with(Errno::ENOTEMPTY, path_rename(context, "#tmp/d", "#tmp/full")));
  EXPECT(fails_with(Errno::EISDIR, path_rename(context, "#tmp/full/x", "#tmp/d")));
  EXPECT(fails_with(Errno::ENOTDIR, path_rename(context, "#tmp/d/e", "#tmp/full/x")));
  EXPECT(fails_with(Errno::EXDEV, path_rename(context, "#tmp/full/x", "#null/x")));
  EXPECT(path_remove(context, "#tmp/full/x", false));
  EXPECT(path_rename(context, "#tmp/d", "#tmp/full"));
  EXPECT(file_is(context, "#tmp/full/e/three", "one"));
  EXPECT(path_remove(context, "#tmp/full/e/three", false));
  EXPECT(path_remove(context, "#tmp/full/e", true));
  EXPECT(path_remove(context, "#tmp/full", true));
}

KTEST(ns_directory_read_while_entries_are_removed) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(path_mkdir(context, "#tmp/many", 0755));
  constexpr int kFiles = 40;
  char path[64];
  for (int i = 0; i < kFiles; ++i) {
    format(path, sizeof path, "#tmp/many/file%d", i);
    EXPECT(write_file(context, path, path));
  }
  {
    Result<Ref<Chan>> chan = path_open(context, "#tmp/many", ABI_O_RDONLY, 0);
    EXPECT(chan);
    int removed = 0;
    alignas(8) char buffer[96];
    while (chan) {
      Result<size_t> length = directory_read(**chan, buffer, sizeof buffer);
      if (!length || *length == 0) break;
      for (size_t at = 0; at < *length;) {
        const auto* const entry = reinterpret_cast<const abi_dirent*>(buffer + at);
        at += entry->length;
        if (entry->name[0] == '.') continue;
        format(path, sizeof path, "#tmp/many/%s", entry->name);
        removed += path_remove(context, path, false).ok();
      }
    }
    EXPECT(removed == kFiles);
    if (chan)
      EXPECT(fails_with(Errno::EINVAL, directory_read(**path_open(context, "#tmp/many", ABI_O_RDONLY, 0), buffer, 8)));
  }
  EXPECT(path_remove(context, "#tmp/many", true));
}

KTEST(ns_root_is_read_only) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(fails_with(Errno::EROFS, path_open(context, "/newfile", ABI_O_WRONLY | ABI_O_CREAT, 0644)));
  EXPECT(fails_with(Errno::EROFS, path_mkdir(context, "/newdir", 0755)));
  Result<Ref<Chan>> init = path_open(context, "/bin/init", ABI_O_RDONLY, 0);
  EXPECT(init);
  char magic[4];
  if (init) EXPECT((*init)->device->read(**init, magic, 4, 0) && memcmp(magic, "\177ELF", 4) == 0);
  EXPECT(fails_with(Errno::EROFS, path_open(context, "/bin/init", ABI_O_WRONLY, 0)));
  EXPECT(fails_with(Errno::EISDIR, path_open(context, "/bin", ABI_O_RDWR, 0)));
  EXPECT(fails_with(Errno::ENOTDIR, path_open(context, "/bin/init", ABI_O_DIRECTORY, 0)));
}

KTEST(ns_devices_have_no_leftovers_when_opened_wrongly) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context(), user = ns.context(nullptr, 100);
  EXPECT(fails_with(Errno::EACCES, path_open(user, "#cons/power", ABI_O_WRONLY, 0)));
  EXPECT(fails_with(Errno::EACCES, path_open(user, "#uart/1", ABI_O_RDONLY, 0)));
  EXPECT(fails_with(Errno::EBUSY, path_open(context, "#uart/0", ABI_O_RDONLY, 0)));
  EXPECT(fails_with(Errno::EISDIR, path_open(context, "#proc", ABI_O_WRONLY, 0)));
  EXPECT(fails_with(Errno::ENOENT, path_open(context, "#proc/4000000", ABI_O_RDONLY, 0)));
  EXPECT(fails_with(Errno::EPERM, path_open(context, "#null/new", ABI_O_WRONLY | ABI_O_CREAT, 0644)));
  EXPECT(fails_with(Errno::ENXIO, path_walk(context, "#tmp.spec/x")));
  Result<Ref<Chan>> power = path_open(context, "#cons/power", ABI_O_WRONLY, 0);
  EXPECT(power && fails_with(Errno::EINVAL, (*power)->device->write(**power, "sideways\n", 9, 0)));
}

KTEST(ns_pipe_carries_bytes_and_ends) {
  LiveCounts live;
  Result<PipeEnds> made = pipe_create();
  EXPECT(made);
  if (!made) return;
  PipeEnds ends = made.take();
  Device& device = *ends.reader->device;
  char buffer[1];
  EXPECT(device.write(*ends.writer, "hello", 5, 0));
  EXPECT(device.poll(*ends.reader) == ABI_POLLIN);
  EXPECT(Bytes(*ends.reader, 0, 3).are("hel"));
  EXPECT(fails_with(Errno::EBADF, device.read(*ends.writer, buffer, 1, 0)));
  EXPECT(fails_with(Errno::EBADF, device.write(*ends.reader, buffer, 1, 0)));
  ends.reader->open_flags |= ABI_O_NONBLOCK;
  ends.writer.reset();
  EXPECT(Bytes(*ends.reader).are("lo"));
  EXPECT(Bytes(*ends.reader).are(""));
  EXPECT(device.poll(*ends.reader) == ABI_POLLHUP);
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
  while (Result<size_t> length = device.write(*ends.writer, block, sizeof block, 0)) total += *length;
  EXPECT(total > 0 && total % sizeof block == 0);  // writes of up to 4096 bytes are whole or not at all
  EXPECT(fails_with(Errno::EAGAIN, device.write(*ends.writer, block, sizeof block, 0)));
  ends.reader.reset();
  EXPECT(fails_with(Errno::EPIPE, device.write(*ends.writer, block, 1, 0)));
  EXPECT(device.poll(*ends.writer) & ABI_POLLERR);
}

// A writer in another task sends more than the pipe holds, with a pattern that the reader checks.
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
    for (; length < sizeof block && at + length < kStream; ++length) block[length] = pattern_at(at + length);
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

KTEST(ns_descriptor_tables) {
  LiveCounts live;
  Result<FdTable*> made = fd_table_create();
  EXPECT(made);
  if (!made) return;
  FdTable& table = **made;
  {
    Result<PipeEnds> pipe = pipe_create();
    EXPECT(pipe);
    if (!pipe) return fd_table_destroy(&table);
    Result<int> reader = fd_install(table, pipe->reader, false), writer = fd_install(table, pipe->writer, true, 10);
    EXPECT(reader && *reader == 0 && writer && *writer == 10);
  }
  EXPECT(fails_with(Errno::EBADF, fd_get(table, 1)));
  EXPECT(fails_with(Errno::EBADF, fd_get(table, -1)));
  EXPECT(fails_with(Errno::EBADF, fd_get(table, kMaxFds)));
  EXPECT(fails_with(Errno::EBADF, fd_close(table, 1)));
  EXPECT(fails_with(Errno::EBADF, fd_dup2(table, 1, 2, false)));
  EXPECT(fails_with(Errno::EBADF, fd_dup2(table, 0, kMaxFds, false)));
  EXPECT(fd_dup2(table, 0, 5, true));
  EXPECT(fd_dup2(table, 10, 5, false));  // in place of what was there
  Result<FdTable*> copy = fd_table_copy(table);
  EXPECT(copy);
  if (copy) {
    fd_close_for_exec(**copy);
    EXPECT(fails_with(Errno::EBADF, fd_get(**copy, 10)));
    Result<Ref<Chan>> a = fd_get(**copy, 5), b = fd_get(table, 10);
    EXPECT(a && b && a->get() == b->get());
    fd_table_destroy(*copy);
  }
  Result<Ref<Chan>> chan = fd_get(table, 0);
  EXPECT(chan);
  int installed = 0;
  while (chan && fd_install(table, *chan, false)) ++installed;
  EXPECT(installed == kMaxFds - 3);
  if (chan) EXPECT(fails_with(Errno::EMFILE, fd_install(table, *chan, false)));
  fd_table_destroy(&table);
}

// Tasks on all CPUs that make, write, read, list, bind, rename and remove in one directory of one namespace, and pass bytes through pipes.
// What each does may fail, since the others are at it too, but only with the errors that this can have.
struct Crowd {
  const TestNamespace* ns;
  std::atomic<unsigned> running{0};
};

bool expected_in_crowd(Errno error) {
  return error == Errno::ENOENT || error == Errno::EEXIST || error == Errno::EBUSY || error == Errno::EINVAL ||
         error == Errno::EPERM || error == Errno::EROFS;
}
template <typename T>
void may_fail(Result<T> result) {
  EXPECT(result || expected_in_crowd(result.error()));
}

void crowd_round(const PathContext& context) {
  char path[64], other[64], names[512];
  format(path, sizeof path, "#tmp/crowd/%lu", ktest_random() % 4);
  format(other, sizeof other, "#tmp/crowd/%lu", ktest_random() % 4);
  switch (ktest_random() % 8) {
    case 0: {
      Result<Ref<Chan>> chan = path_open(context, path, ABI_O_RDWR | ABI_O_CREAT | ABI_O_TRUNC, 0644);
      if (chan) EXPECT((*chan)->device->write(**chan, path, sizeof path, kPageSize - 5));
      return may_fail(std::move(chan));
    }
    case 1:
      return may_fail(path_remove(context, path, false));
    case 2:
      return may_fail(path_rename(context, path, other));
    case 3:
      return static_cast<void>(names_in(context, "#tmp/crowd", names));
    case 4:
      return may_fail(path_bind(context, "#null", "#tmp/crowd", ABI_BIND_AFTER));
    case 5:
      return may_fail(path_unmount(context, "#tmp/crowd"));
    case 6: {
      Result<PipeEnds> pipe = pipe_create();
      EXPECT(pipe && (*pipe).writer->device->write(*(*pipe).writer, path, sizeof path, 0));
      return;
    }
    default: {
      Result<Ref<Chan>> chan = path_open(context, other, ABI_O_RDONLY, 0);
      if (chan) EXPECT(Bytes(**chan).ok);
      return may_fail(std::move(chan));
    }
  }
}

void join_crowd(void* argument) {
  auto* const crowd = static_cast<Crowd*>(argument);
  const PathContext context = crowd->ns->context();
  for (int i = 0; i < 2000; ++i) crowd_round(context);
  crowd->running.fetch_sub(1, std::memory_order_release);
  task_exit();
}

KTEST(ns_tasks_on_all_cpus_at_once) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(path_mkdir(context, "#tmp/crowd", 0755));
  Crowd crowd{.ns = &ns};
  for (unsigned i = 0; i < 2 * cpu_count(); ++i) {
    Result<Task*> task = task_create("crowd", join_crowd, &crowd);
    EXPECT(task);
    if (!task) break;
    crowd.running.fetch_add(1, std::memory_order_relaxed);
    task_start(*task);
  }
  while (crowd.running.load(std::memory_order_acquire) > 0) task_yield();
  task_drain_dead();
  static_cast<void>(path_unmount(context, "#tmp/crowd"));
  for (const auto path : {"#tmp/crowd/0"sv, "#tmp/crowd/1"sv, "#tmp/crowd/2"sv, "#tmp/crowd/3"sv})
    static_cast<void>(path_remove(context, path, false));
  EXPECT(path_remove(context, "#tmp/crowd", true));
}

}  // namespace
