// Files and directories in memory: holes, renames, reading of directories while they change, and
// large directories.

#include <algorithm>
#include <string_view>

#include "arch/x86_64/time.h"
#include "core/ktest.h"
#include "lib/format.h"
#include "lib/units.h"
#include "ns/namespace.h"
#include "pages.h"
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
  // Truncated bytes do not come back when the file grows again.
  EXPECT(device.truncate(chan, far + 1, {}));
  EXPECT(device.truncate(chan, far + 3, {}));
  EXPECT(Bytes(chan, far).are("e\0\0"sv));
  Result<Ref<Chan>> appending = path_open(context, "#tmp/file", ABI_O_WRONLY | ABI_O_APPEND, 0);
  EXPECT(appending);
  if (appending) EXPECT((*appending)->device->write(**appending, "more", 4, 0));
  EXPECT(Bytes(chan, far + 3).are("more"));
  EXPECT(fails_with(Errno::EFBIG, device.write(chan, "x", 1, uint64_t{1} << 60)));
  EXPECT(fails_with(Errno::EFBIG, device.write(chan, "x", 1, UINT64_MAX)));
  // A file that is removed while open exists until its last channel is closed.
  EXPECT(path_remove(context, "#tmp/file", false));
  EXPECT(fails_with(Errno::ENOENT, path_walk(context, "#tmp/file")));
  EXPECT(device.stat(chan, stat) && stat.nlink == 0);
  EXPECT(Bytes(chan, far + 3).are("more"));
}

// Would find a file that shows bytes of a file that was removed before.
KTEST(ns_tmp_new_page_is_clear) {
  TestNamespace ns;
  const PathContext context = ns.context();
  constexpr uint64_t kPlace = 128;
  static char page[kPageSize];
  std::ranges::fill(page, 'x');
  EXPECT(write_file(context, "#tmp/old", {page, sizeof page}));
  EXPECT(path_remove(context, "#tmp/old", false));
  Result<Ref<Chan>> opened = path_open(context, "#tmp/new", ABI_O_RDWR | ABI_O_CREAT, 0644);
  EXPECT(opened);
  if (!opened) return;
  Chan& chan = **opened;
  Result<size_t> written = chan.device->write(chan, "new", 3, kPlace);
  EXPECT(written && *written == 3);
  EXPECT(chan.device->truncate(chan, kPageSize, {}));
  Result<size_t> got = chan.device->read(chan, page, sizeof page, 0);
  EXPECT(got && *got == kPageSize);
  EXPECT(std::string_view(page + kPlace, 3) == "new");
  std::ranges::fill(page + kPlace, page + kPlace + 3, 0);
  EXPECT(std::ranges::all_of(page, [](char byte) { return byte == 0; }));
  EXPECT(path_remove(context, "#tmp/new", false));
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

Result<size_t> write_byte(const PathContext& context, std::string_view path, uint64_t offset) {
  Ref<Chan> chan = TRY(path_open(context, path, ABI_O_WRONLY | ABI_O_CREAT, 0644));
  return chan->device->write(*chan, "x", 1, offset);
}

// Sparse files allocate the nodes of their page trees, and empty files allocate inodes and names.
// All this memory counts against the limit of #tmp.
KTEST(ns_tmp_counts_all_that_files_take) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  constexpr int kMostFiles = 400;
  int files = 0;
  char path[64];
  const auto next_path = [&]() {
    return std::string_view(
        path, static_cast<size_t>(format(path, sizeof path, "#tmp/sparse%d", files++)));
  };
  for (uint64_t offset = (uint64_t{4} << 30) - 1; offset > kPageSize; offset /= 2) {
    bool room = true;
    while (room && files < kMostFiles) {
      Result<size_t> put = write_byte(context, next_path(), offset);
      room = put.ok();
      if (!room) EXPECT(put.error() == Errno::ENOSPC);
    }
  }
  Result<void> made;
  while (made && files < kMostFiles) made = write_file(context, next_path(), "");
  EXPECT(files < kMostFiles && made.error() == Errno::ENOSPC);
  EXPECT(fails_with(Errno::ENOSPC, path_mkdir(context, next_path(), 0755)));
  // A longer name needs memory of its own. What a file did not fit into may have room for a few.
  char longest[5 + kMaxName];
  std::fill(std::begin(longest), std::end(longest), 'x');
  "#tmp/"sv.copy(longest, 5);
  const auto longest_name = [&](int file) {
    longest[5 + format(longest + 5, 5, "%04d", file)] = 'x';
    return std::string_view(longest, sizeof longest);
  };
  bool full = false;
  for (int file = 0; !full && file < files; file++) {
    format(path, sizeof path, "#tmp/sparse%d", file);
    full = fails_with(Errno::ENOSPC, path_rename(context, path, longest_name(file)));
  }
  EXPECT(full);
  EXPECT(memory_totals().free > memory_totals().total / 4);
  while (files-- > 0) {
    format(path, sizeof path, "#tmp/sparse%d", files);
    // Some files could not be created.
    static_cast<void>(path_remove(context, path, false));
    static_cast<void>(path_remove(context, longest_name(files), false));
  }
  EXPECT(write_byte(context, "#tmp/again", (uint64_t{4} << 30) - 1));
  EXPECT(path_remove(context, "#tmp/again", false));
}

KTEST(ns_tmp_truncate_gives_everything_back) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  constexpr uint64_t kArray = (uint64_t{1} << 30) / kPageSize * sizeof(void*);
  EXPECT(write_byte(context, "#tmp/file", 0));
  const uint64_t before = memory_totals().free;
  EXPECT(write_byte(context, "#tmp/file", (uint64_t{1} << 30) - 1));
  EXPECT(memory_totals().free <= before - kArray);
  EXPECT(path_truncate(context, "#tmp/file", 1));
  EXPECT(memory_totals().free > before - kArray / 4);
  EXPECT(file_is(context, "#tmp/file", "x"));
  // A file that grows again reads as zeros beyond its old end, and new data is kept.
  EXPECT(path_truncate(context, "#tmp/file", 10 * kPageSize));
  EXPECT(write_byte(context, "#tmp/file", 5 * kPageSize));
  Result<Ref<Chan>> chan = path_open(context, "#tmp/file", ABI_O_RDONLY, 0);
  EXPECT(chan && Bytes(**chan, 5 * kPageSize - 1, 3).are("\0x\0"sv));
  EXPECT(path_remove(context, "#tmp/file", false));
}

// Other users make changes between the walk to a file and the operation on it, so the device checks
// permissions again.
KTEST(ns_tmp_looks_and_changes_in_one_step) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context(), his = ns.context(nullptr, 1000),
                    hers = ns.context(nullptr, 1001);
  EXPECT(write_file(his, "#tmp/a", "his"));
  {
    Ref<Chan> file = path_walk(his, "#tmp/a").take(), directory = path_walk(his, "#tmp").take();
    Device& device = *file->device;
    const DirectoryEntry at{*directory, "a"};
    EXPECT(write_file(hers, "#tmp/b", "hers"));
    EXPECT(fails_with(Errno::EPERM, device.rename(*file, at, {*directory, "b"}, his.who)));
    EXPECT(file_is(hers, "#tmp/b", "hers") && file_is(his, "#tmp/a", "his"));
    EXPECT(fails_with(Errno::EPERM, device.remove(*file, at, hers.who)));
    // The file gets another name, and later moves to another directory.
    EXPECT(path_rename(his, "#tmp/a", "#tmp/c"));
    EXPECT(fails_with(Errno::ENOENT, device.remove(*file, at, his.who)));
    EXPECT(fails_with(Errno::ENOENT, device.rename(*file, at, {*directory, "d"}, his.who)));
    EXPECT(path_mkdir(root, "#tmp/roots", 0755));
    EXPECT(path_rename(root, "#tmp/c", "#tmp/roots/c"));
    Ref<Chan> roots = path_walk(his, "#tmp/roots").take();
    EXPECT(fails_with(Errno::ENOENT, device.remove(*file, {*directory, "c"}, his.who)));
    EXPECT(fails_with(Errno::EACCES, device.remove(*file, {*roots, "c"}, his.who)));
    EXPECT(
        fails_with(Errno::EACCES, device.rename(*file, {*roots, "c"}, {*directory, "c"}, his.who)));
    EXPECT(fails_with(Errno::EACCES,
                      device.create(*roots, "d", ABI_O_RDWR, ABI_S_IFREG | 0644, his.who)));
    EXPECT(path_rename(root, "#tmp/roots/c", "#tmp/a"));
    EXPECT(fails_with(Errno::EACCES, device.rename(*file, at, {*roots, "a"}, his.who)));
    EXPECT(device.remove(*file, at, his.who));
    EXPECT(fails_with(Errno::ENOENT, device.remove(*file, at, his.who)));
  }
  EXPECT(path_remove(root, "#tmp/b", false));
  EXPECT(path_remove(root, "#tmp/roots", true));
}

KTEST(ns_a_file_is_executed_or_written) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  const auto open = [&](uint32_t flags) { return path_open(context, "#tmp/program", flags, 0755); };
  constexpr uint32_t kExecute = ABI_O_RDONLY | kOpenToExecute;
  EXPECT(open(ABI_O_WRONLY | ABI_O_CREAT));
  EXPECT(write_file(context, "#tmp/program", "code"));
  {
    Result<Ref<Chan>> running = open(kExecute), again = open(kExecute);
    EXPECT(running && again);
    for (const uint32_t flags : {ABI_O_WRONLY, ABI_O_RDWR, ABI_O_RDONLY | ABI_O_TRUNC,
                                 ABI_O_WRONLY | ABI_O_TRUNC, ABI_O_WRONLY | ABI_O_CREAT})
      EXPECT(fails_with(Errno::ETXTBSY, open(static_cast<uint32_t>(flags))));
    EXPECT(fails_with(Errno::ETXTBSY, path_truncate(context, "#tmp/program", 0)));
    EXPECT(file_is(context, "#tmp/program", "code"));
    // The permission check comes first: a caller that may not write gets EACCES, not ETXTBSY. Such
    // a caller never counts as a writer, so it cannot prevent others from executing the file.
    const PathContext nobodys = ns.context(nullptr, 1000);
    EXPECT(fails_with(Errno::EACCES, path_open(nobodys, "#tmp/program", ABI_O_WRONLY, 0)));
    EXPECT(fails_with(Errno::EACCES, path_truncate(nobodys, "#tmp/program", 0)));
    again->reset();
    EXPECT(fails_with(Errno::ETXTBSY, open(ABI_O_WRONLY)));
    // Another file may take the program's name.
    EXPECT(write_file(context, "#tmp/next", "next"));
    EXPECT(path_rename(context, "#tmp/next", "#tmp/program"));
    EXPECT(write_file(context, "#tmp/program", "code"));
    EXPECT(Bytes(**running).are("code"));
  }
  {
    Result<Ref<Chan>> written = open(ABI_O_RDWR), again = open(ABI_O_WRONLY);
    EXPECT(written && again);
    EXPECT(fails_with(Errno::ETXTBSY, open(kExecute)));
    written->reset();
    EXPECT(fails_with(Errno::ETXTBSY, open(kExecute)));
  }
  EXPECT(open(kExecute));
  EXPECT(open(ABI_O_WRONLY));
  EXPECT(path_truncate(context, "#tmp/program", 1));
  EXPECT(path_remove(context, "#tmp/program", false));
}

// A device whose files are open files of others, as those of #fd are. The open of a file gives away
// the device's reference, as if the others closed the file at the same time.
class GivingDevice final : public EmptyDevice {
 public:
  constexpr GivingDevice() : EmptyDevice("giving") {}
  Result<Ref<Chan>> walk(Chan&, std::string_view, const Credentials&) override {
    return Chan::create(this, {.path = 1});
  }
  Result<void> stat(Chan& chan, abi_stat& stat) override {
    fill_stat(stat, chan.qid.path, ABI_S_IFDIR | 0555);
    return {};
  }
  bool opens_existing(const Chan&) const override { return true; }
  Result<Ref<Chan>> open(Ref<Chan>, uint32_t, const Credentials&) override {
    return std::move(*given);
  }

  Ref<Chan>* given = nullptr;
};

KTEST(ns_an_existing_open_file_is_opened_again) {
  LiveCounts live;
  static constinit GivingDevice device;
  if (!device_find("giving")) device_register(&device);
  Ref<Chan> given;
  device.given = &given;
  TestNamespace ns;
  const PathContext context = ns.context();
  const auto open = [&](uint32_t flags) { return path_open(context, "#tmp/program", flags, 0755); };
  constexpr uint32_t kExecute = ABI_O_RDONLY | kOpenToExecute;
  // Opens the file once more, as the open file `chan`.
  const auto reopen = [&](const Ref<Chan>& chan, uint32_t flags, uint32_t uid = 0) {
    given = chan;
    return path_open(ns.context(nullptr, uid), "#giving/x", flags, 0);
  };
  EXPECT(open(ABI_O_WRONLY | ABI_O_CREAT) && write_file(context, "#tmp/program", "code"));
  {
    // The open file has no other user when the open returns it. It keeps its name and its use.
    given = open(ABI_O_RDWR).take();
    Result<Ref<Chan>> again = path_open(context, "#giving/x", ABI_O_RDWR, 0);
    EXPECT(again && strcmp((*again)->path, "#tmp/program") == 0);
    EXPECT(again && fails_with(Errno::ETXTBSY, reopen(*again, kExecute)));
  }
  {
    Ref<Chan> reader = open(ABI_O_RDONLY).take();
    EXPECT(open(ABI_O_WRONLY));
    EXPECT(reopen(reader, kExecute) && reopen(reader, kExecute));
    EXPECT(fails_with(Errno::ETXTBSY, open(ABI_O_WRONLY)));
  }
  EXPECT(open(ABI_O_WRONLY));
  {
    // A user who may not execute the file cannot keep others from writing it.
    Ref<Chan> reader = open(ABI_O_RDONLY).take();
    EXPECT(reader->device->set_attributes(*reader, mode_change(0744), context.who));
    EXPECT(fails_with(Errno::EACCES, reopen(reader, kExecute, 1000)) && open(ABI_O_WRONLY));
  }
  EXPECT(path_remove(context, "#tmp/program", false));
}

// Two readers are at different positions in a directory, while the entries there are removed,
// renamed and created. Each reader sees every entry that stays exactly once.
KTEST(ns_directory_readers_keep_their_places) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(path_mkdir(context, "#tmp/many", 0755));
  constexpr unsigned kFiles = 60;
  char path[64], to[64];
  const auto name_of = [&](unsigned i, char letter) {
    format(path, sizeof path, "#tmp/many/%c%u", letter, i);
    return std::string_view(path);
  };
  for (unsigned i = 0; i < kFiles; ++i) EXPECT(write_file(context, name_of(i, 'f'), "x"));
  {
    struct {
      Ref<Chan> chan;
      unsigned seen[kFiles] = {}, last = 0;
      bool done = false;
    } readers[2];
    for (auto& reader : readers) {
      reader.chan = path_open(context, "#tmp/many", ABI_O_RDONLY, 0).take();
      char too_small[8];
      EXPECT(fails_with(Errno::EINVAL, directory_read(*reader.chan, too_small, sizeof too_small)));
    }
    unsigned stays[kFiles];
    std::fill(std::begin(stays), std::end(stays), 1);
    for (unsigned round = 0; !readers[0].done || !readers[1].done; ++round) {
      // In the first ten rounds only the second reader reads.
      auto& reader = readers[round < 10 || round % 2 ? 1 : 0];
      alignas(8) char buffer[24];  // room for one entry
      Result<size_t> length = directory_read(*reader.chan, buffer, sizeof buffer);
      EXPECT(length);
      reader.done = !length || *length == 0;
      if (reader.done) continue;
      const char* const name = reinterpret_cast<const abi_dirent*>(buffer)->name;
      if (name[0] != 'f') continue;
      unsigned i = 0;
      for (const char* digit = name + 1; *digit; ++digit)
        i = i * 10 + static_cast<unsigned>(*digit - '0');
      ++reader.seen[i];
      const unsigned next = i + 1;
      if (i % 3 == 0 && next < kFiles && stays[i] && stays[next]) {
        // Remove the current entry, rename the next one, and create a new one.
        stays[i] = stays[next] = 0;
        EXPECT(path_remove(context, name_of(i, 'f'), false));
        format(to, sizeof to, "#tmp/many/r%u", next);
        EXPECT(path_rename(context, name_of(next, 'f'), to));
        EXPECT(write_file(context, name_of(i, 'n'), "x"));
      }
    }
    for (unsigned i = 0; i < kFiles; ++i)
      for (const auto& reader : readers) EXPECT(reader.seen[i] == 1 || !stays[i]);
  }
  for (unsigned i = 0; i < kFiles; ++i)
    for (const char letter : {'f', 'r', 'n'})
      static_cast<void>(path_remove(context, name_of(i, letter), false));
  EXPECT(path_remove(context, "#tmp/many", true));
}

KTEST(ns_files_that_cannot_run_are_not_searched_for_running_ones) {
  TestNamespace ns;
  const PathContext context = ns.context();
  const auto is_known = [&](const char* path, uint32_t flags) {
    Result<Ref<Chan>> chan = path_open(context, path, flags, 0755);
    EXPECT(chan);
    return (*chan)->used_file != nullptr;
  };
  EXPECT(!is_known("#null/null", ABI_O_WRONLY));
  EXPECT(is_known("#tmp/file", ABI_O_WRONLY | ABI_O_CREAT));
  EXPECT(!is_known("#tmp/file", ABI_O_RDONLY));
  EXPECT(is_known("#tmp/file", ABI_O_RDONLY | kOpenToExecute));
  EXPECT(path_remove(context, "#tmp/file", false));
}

// A device whose files have numbers, but no names and no contents.
class NumberedFiles final : public EmptyDevice {
 public:
  using EmptyDevice::EmptyDevice;
  bool one_offset() const override { return true; }
};

// Opens many files at once, and closes them in random order. The two devices have files with the
// same numbers.
KTEST(ns_each_file_in_use_is_known) {
  LiveCounts live;
  constexpr unsigned kFiles = 200;
  static constinit NumberedFiles devices[2] = {{"numbered0"}, {"numbered1"}};
  if (!device_find("numbered0")) {
    for (NumberedFiles& device : devices) device_register(&device);
  }
  Ref<Chan> in_use[kFiles];
  FileUse uses[kFiles] = {};
  const auto begin = [&](unsigned file, FileUse use) -> Result<Ref<Chan>> {
    // Some numbers differ only in their highest bits, others have equal low bits.
    const uint64_t path = file / 2 % 3 == 0   ? uint64_t{file / 2} << 57
                          : file / 2 % 3 == 1 ? uint64_t{file / 2} << 20 | 0xfffff
                                              : file / 2;
    Ref<Chan> chan = TRY(Chan::create(&devices[file % 2], {.path = path}));
    TRY(file_use_begin(*chan, use));
    return chan;
  };
  for (unsigned step = 0; step < 20'000; step++) {
    const auto file = static_cast<unsigned>(ktest_random() % kFiles);
    const FileUse use = ktest_random() % 2 ? FileUse::kWritten : FileUse::kExecuted;
    Result<Ref<Chan>> chan = begin(file, use);
    if (in_use[file] && uses[file] != use) {
      EXPECT(!chan && chan.error() == Errno::ETXTBSY);
    } else {
      EXPECT(chan);
    }
    if (in_use[file] && ktest_random() % 2) {
      in_use[file].reset();
    } else if (chan) {
      uses[file] = use;
      in_use[file] = chan.take();
    }
  }
  for (Ref<Chan>& chan : in_use) chan.reset();
}

}  // namespace
