// Path walks, binds and permissions, also by many tasks at once. LiveCounts checks that no object
// is left behind.

#include <algorithm>
#include <atomic>
#include <string_view>

#include "core/cpu.h"
#include "core/ktest.h"
#include "lib/format.h"
#include "lib/units.h"
#include "ns/namespace.h"
#include "sched/task.h"
#include "tests/ns_world.h"

namespace {

using namespace std::literals;

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

// The parent of the directory `inner` is renamed, and another directory takes the parent's old
// name. The name of `inner` follows the rename, and so does `..` from `inner`.
KTEST(ns_names_follow_renames) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  for (const bool bound : {false, true}) {
    if (bound) EXPECT(path_bind(context, "#tmp", "/tmp", 0));
    for (const auto path : {"#tmp/old"sv, "#tmp/old/inner"sv, "#tmp/other"sv})
      EXPECT(path_mkdir(context, path, 0755));
    Result<Ref<Chan>> inner = path_walk(context, bound ? "/tmp/old/inner" : "#tmp/old/inner");
    EXPECT(inner);
    if (!inner) return;
    const PathContext below = ns.context(inner->get());
    char name[kMaxPath];
    const auto is_called = [&](std::string_view in_tmp) {
      char wanted[kMaxPath];
      const int length = format(wanted, sizeof wanted, "%s/%.*s", bound ? "/tmp" : "#tmp",
                                static_cast<int>(in_tmp.size()), in_tmp.data());
      Result<size_t> got = chan_present_name(*context.ns, **inner, name);
      return got &&
             std::string_view(name, *got) == std::string_view(wanted, static_cast<size_t>(length));
    };
    const auto parent_is = [&](std::string_view path) {
      Result<Ref<Chan>> wanted = path_walk(context, path), above = path_walk(below, ".."),
                        around = path_walk(below, "./../inner/..");
      return wanted && above && around && (*above)->qid == (*wanted)->qid &&
             (*around)->qid == (*wanted)->qid;
    };
    EXPECT(is_called("old/inner") && parent_is("#tmp/old"));
    EXPECT(path_rename(context, "#tmp/old", "#tmp/renamed"));
    EXPECT(path_mkdir(context, "#tmp/old", 0755));
    EXPECT(path_mkdir(context, "#tmp/old/inner", 0755));
    EXPECT(is_called("renamed/inner") && parent_is("#tmp/renamed"));
    EXPECT(write_file(below, "file", "text") && file_is(below, "../../renamed/inner/file", "text"));
    Result<Ref<Chan>> up = path_walk(below, "..");
    EXPECT(up && (*up)->path == (bound ? "/tmp/renamed"sv : "#tmp/renamed"sv));
    // The directory itself moves elsewhere, and a file takes its old name.
    EXPECT(path_rename(context, "#tmp/renamed/inner", "#tmp/other/inner"));
    EXPECT(write_file(context, "#tmp/renamed/inner", ""));
    EXPECT(is_called("other/inner"));
    Result<Ref<Chan>> above = path_walk(below, "..");
    EXPECT(above && (*above)->qid == (*path_walk(context, "#tmp/other"))->qid);
    // The step from the parent back to `inner` needs search permission in the parent.
    EXPECT((*above)->device->set_attributes(**above, mode_change(0700), {}));
    EXPECT(fails_with(Errno::EACCES, path_walk(ns.context(inner->get(), 1000), "../inner")));
    // A removed directory has no present name. So `..` uses the last name that the directory's
    // channel stored, and leads to the parent in this name.
    EXPECT(path_remove(context, "#tmp/other/inner/file", false));
    EXPECT(path_remove(context, "#tmp/other/inner", true));
    EXPECT(path_rename(context, "#tmp/old", "#tmp/older") &&
           path_rename(context, "#tmp/older", "#tmp/old"));
    EXPECT(fails_with(Errno::ENOENT, chan_present_name(*context.ns, **inner, name)));
    EXPECT(path_walk(below, ".."));
    EXPECT(path_remove(context, "#tmp/renamed/inner", false));
    for (const auto path : {"#tmp/other"sv, "#tmp/renamed"sv, "#tmp/old/inner"sv, "#tmp/old"sv})
      EXPECT(path_remove(context, path, true));
  }
}

// After a rename of a directory, finding the present name of the current directory costs a walk.
// Only calls that need this name pay for it, and the first one stores the name that it has found.
KTEST(ns_the_current_directory_keeps_its_present_name) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  for (const auto path : {"#tmp/before"sv, "#tmp/before/inner"sv, "#tmp/other"sv})
    EXPECT(path_mkdir(context, path, 0755));
  {
    Result<Ref<Chan>> inner = path_walk(context, "#tmp/before/inner");
    EXPECT(inner);
    if (!inner) return;
    const PathContext below = ns.context(inner->get());
    const auto is_named = [&](std::string_view path) {
      return (*inner)->path == path && (*inner)->named_at == directory_renames();
    };
    EXPECT(path_rename(context, "#tmp/before", "#tmp/after"));
    EXPECT(write_file(below, "file", "text") && is_named("#tmp/after/inner"));
    EXPECT(path_rename(context, "#tmp/after", "#tmp/again"));
    EXPECT(path_walk(below, "..") && is_named("#tmp/again/inner"));
    // A call updates the directory's name only if its path has `..`, or if it asks for the present
    // name (Name::kPresent). The next two calls do neither.
    EXPECT(path_rename(context, "#tmp/other", "#tmp/others"));
    EXPECT(path_walk(below, "file") && !is_named("#tmp/again/inner"));
    EXPECT(path_remove(below, "file", false) && !is_named("#tmp/again/inner"));
    char name[kMaxPath];
    EXPECT(chan_present_name(*context.ns, **inner, name) && is_named("#tmp/again/inner"));
  }
  for (const auto path : {"#tmp/again/inner"sv, "#tmp/again"sv, "#tmp/others"sv})
    EXPECT(path_remove(context, path, true));
}

// The rename of an ancestor makes a directory's name too long. The directory can still be used, but
// `..` fails, since the old name may lead to another directory.
KTEST(ns_names_that_become_too_long) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  constexpr size_t kTop = 6, kLevels = 3;
  char path[kMaxPath] = "#tmp/s", long_top[5 + kMaxName];
  const auto level = [&](size_t n) { return std::string_view(path, kTop + n * (kMaxName + 1)); };
  for (size_t n = 0; n < kLevels; ++n) {
    path[kTop + n * (kMaxName + 1)] = '/';
    std::fill_n(path + kTop + n * (kMaxName + 1) + 1, kMaxName, 'd');
  }
  std::string_view("#tmp/").copy(long_top, 5);
  std::fill_n(long_top + 5, kMaxName, 't');
  const std::string_view top(long_top, sizeof long_top);
  for (size_t n = 0; n <= kLevels; ++n) EXPECT(path_mkdir(context, level(n), 0755));
  {
    Result<Ref<Chan>> inner = path_walk(context, level(kLevels));
    EXPECT(inner);
    if (!inner) return;
    const PathContext below = ns.context(inner->get());
    EXPECT(path_rename(context, level(0), top));
    EXPECT(path_mkdir(context, level(0), 0755) && path_mkdir(context, level(1), 0755) &&
           path_mkdir(context, level(2), 0755));
    char name[kMaxPath];
    EXPECT(fails_with(Errno::ENAMETOOLONG, chan_present_name(*context.ns, **inner, name)));
    EXPECT(fails_with(Errno::ENAMETOOLONG, path_walk(below, "..")));
    EXPECT(path_walk(below, "."));
    for (size_t n = kLevels; n-- > 0;) EXPECT(path_remove(context, level(n), true));
    EXPECT(path_rename(context, top, level(0)));
    EXPECT(path_walk(below, ".."));
  }
  for (size_t n = kLevels + 1; n-- > 0;) EXPECT(path_remove(context, level(n), true));
}

KTEST(ns_names_that_are_too_long) {
  LiveCounts live;
  TestNamespace ns;
  char path[kMaxPath + 8];
  std::fill(std::begin(path), std::end(path), 'x');
  EXPECT(fails_with(Errno::ENAMETOOLONG, path_walk(ns.context(), {path, sizeof path})));
  std::string_view("#tmp/").copy(path, 5);
  EXPECT(fails_with(Errno::ENAMETOOLONG, path_walk(ns.context(), {path, 5 + kMaxName + 1})));
  EXPECT(fails_with(Errno::ENAMETOOLONG, path_open(ns.context(), {path, 5 + kMaxName + 1},
                                                   ABI_O_WRONLY | ABI_O_CREAT, 0644)));
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
  for (const auto path : {"#tmp/here/name"sv, "#tmp/there/name"sv})
    EXPECT(path_remove(context, path, false));
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
  EXPECT(fails_with(Errno::EINVAL,
                    path_bind(context, "#null", "#tmp", ABI_BIND_AFTER | ABI_BIND_BEFORE)));
  EXPECT(fails_with(Errno::EINVAL, path_bind(context, "#null", "#tmp", 64)));
  EXPECT(fails_with(Errno::EPERM,
                    path_bind(ns.context(nullptr, 7), "#null", "#tmp", ABI_BIND_REPLACE)));
  EXPECT(fails_with(Errno::EPERM, path_unmount(ns.context(nullptr, 7), "#tmp")));
}

KTEST(ns_unions_show_each_name_once_and_make_files_where_allowed) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  for (const auto path : {"#tmp/u"sv, "#tmp/a"sv, "#tmp/b"sv})
    EXPECT(path_mkdir(context, path, 0755));
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
  for (const auto path : {"#tmp/u"sv, "#tmp/a"sv, "#tmp/b"sv})
    EXPECT(path_remove(context, path, true));
}

KTEST(ns_unions_have_a_limit_of_members) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context();
  for (const auto path : {"#tmp/u"sv, "#tmp/a"sv}) EXPECT(path_mkdir(root, path, 0755));
  // The first bind makes two members.
  for (size_t i = 2; i <= kMostMembers; i++)
    EXPECT(path_bind(root, "#tmp/a", "#tmp/u", ABI_BIND_BEFORE));
  EXPECT(fails_with(Errno::ENOSPC, path_bind(root, "#tmp/a", "#tmp/u", ABI_BIND_AFTER)));
  {
    Result<Ref<Chan>> open = path_open(root, "#tmp/u", ABI_O_RDONLY, 0);
    EXPECT(open);
  }
  EXPECT(path_bind(root, "#tmp/a", "#tmp/u", ABI_BIND_REPLACE) && path_unmount(root, "#tmp/u"));
  for (const auto path : {"#tmp/u"sv, "#tmp/a"sv}) EXPECT(path_remove(root, path, true));
}

KTEST(ns_a_union_does_not_open_its_members) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context(), user = ns.context(nullptr, 100);
  for (const auto path : {"#tmp/u"sv, "#tmp/closed"sv, "#tmp/open"sv})
    EXPECT(path_mkdir(root, path, path == "#tmp/closed"sv ? 0700 : 0755));
  EXPECT(write_file(root, "#tmp/closed/secret", "closed"));
  EXPECT(write_file(root, "#tmp/closed/both", "closed"));
  EXPECT(write_file(root, "#tmp/open/both", "open"));
  for (const uint32_t order : {ABI_BIND_BEFORE, ABI_BIND_AFTER}) {
    EXPECT(path_bind(root, "#tmp/open", "#tmp/u", ABI_BIND_BEFORE));
    EXPECT(path_bind(root, "#tmp/closed", "#tmp/u", order));
    EXPECT(file_is(root, "#tmp/u/secret", "closed") && file_is(user, "#tmp/u/both", "open"));
    EXPECT(fails_with(Errno::EACCES, path_walk(user, "#tmp/u/secret")));
    EXPECT(fails_with(Errno::EACCES, path_open(user, "#tmp/u/secret", ABI_O_RDONLY, 0)));
    EXPECT(fails_with(Errno::EACCES, path_walk(user, "#tmp/u/nothing")));
    EXPECT(fails_with(Errno::ENOENT, path_walk(root, "#tmp/u/nothing")));
    EXPECT(path_unmount(root, "#tmp/u"));
  }
  for (const auto path : {"#tmp/closed/secret"sv, "#tmp/closed/both"sv, "#tmp/open/both"sv})
    EXPECT(path_remove(root, path, false));
  for (const auto path : {"#tmp/u"sv, "#tmp/closed"sv, "#tmp/open"sv})
    EXPECT(path_remove(root, path, true));
}

KTEST(ns_permissions) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context(), user = ns.context(nullptr, 100),
                    other = ns.context(nullptr, 200);
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

KTEST(ns_root_is_read_only) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  EXPECT(
      fails_with(Errno::EROFS, path_open(context, "/newfile", ABI_O_WRONLY | ABI_O_CREAT, 0644)));
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
  EXPECT(
      fails_with(Errno::EPERM, path_open(context, "#null/new", ABI_O_WRONLY | ABI_O_CREAT, 0644)));
  EXPECT(fails_with(Errno::ENXIO, path_walk(context, "#tmp.spec/x")));
  Result<Ref<Chan>> power = path_open(context, "#cons/power", ABI_O_WRONLY, 0);
  EXPECT(power && fails_with(Errno::EINVAL, (*power)->device->write(**power, "sideways\n", 9, 0)));
}

// Tasks on all CPUs create, write, read, list, bind, rename and remove in one directory of one
// namespace, and write to pipes. Other tasks may make an operation fail, but only with the expected
// errors.
struct Crowd {
  const TestNamespace* ns;
  std::atomic<unsigned> running{0};
};

bool expected_in_crowd(Errno error) {
  return error == Errno::ENOENT || error == Errno::EEXIST || error == Errno::EBUSY ||
         error == Errno::EINVAL || error == Errno::EPERM || error == Errno::EROFS;
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
      Result<Ref<Chan>> chan =
          path_open(context, path, ABI_O_RDWR | ABI_O_CREAT | ABI_O_TRUNC, 0644);
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
