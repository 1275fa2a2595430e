// Files and directories in memory: holes, renames, what is removed while it is read.

#include <string_view>

#include "core/ktest.h"
#include "lib/format.h"
#include "lib/units.h"
#include "ns/namespace.h"
#include "tests/ns_world.h"

namespace {

using namespace std::literals;

KTEST(ns_tmp_holes_truncate_and_append) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  Result<Ref<Chan>> opened =
      path_open(context, "#tmp/file", ABI_O_RDWR | ABI_O_CREAT | ABI_O_EXCL, 0644);
  EXPECT(opened);
  if (!opened) return;
  Chan& chan = **opened;
  Device& device = *chan.device;
  EXPECT(fails_with(Errno::EEXIST,
                    path_open(context, "#tmp/file", ABI_O_RDWR | ABI_O_CREAT | ABI_O_EXCL, 0644)));
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
  for (const auto path : {"#tmp/d"sv, "#tmp/d/e"sv, "#tmp/full"sv})
    EXPECT(path_mkdir(context, path, 0755));
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
      EXPECT(fails_with(
          Errno::EINVAL,
          directory_read(**path_open(context, "#tmp/many", ABI_O_RDONLY, 0), buffer, 8)));
  }
  EXPECT(path_remove(context, "#tmp/many", true));
}

}  // namespace
