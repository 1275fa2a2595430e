// Hard links and symbolic links in #tmp. Walks follow links across binds and unions, and from open
// directories.

#include <string_view>

#include "core/ktest.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/chan_impl.h"
#include "ns/namespace.h"
#include "tests/ns_world.h"

namespace {

using namespace std::literals;

uint32_t links_of(const PathContext& context, std::string_view path) {
  Result<Ref<Chan>> chan = path_walk(context, path, Links::kNotLast);
  abi_stat stat;
  return chan && (*chan)->device->stat(**chan, stat) ? stat.nlink : 0;
}

// A user links his own files, and others' files that he may write and that give no rights.
// tests/programs/filetest/links.c has the other rules.
KTEST(ns_hard_links_of_users) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context(), user = ns.context(nullptr, 1000);
  EXPECT(path_mkdir(context, "#tmp/d", 0755) && path_mkdir(context, "#tmp/all", 0777));
  EXPECT(write_file(context, "#tmp/a", "text"));
  const auto link = [&](uint32_t mode) {
    Result<Ref<Chan>> file = path_walk(context, "#tmp/a");
    EXPECT(file && (*file)->device->set_attributes(**file, mode_change(mode), {}));
    return path_link(user, "#tmp/a", user, "#tmp/all/a", Links::kNotLast);
  };
  for (const uint32_t mode : {0644u, 04777u, 02777u})
    EXPECT(fails_with(Errno::EPERM, link(mode)) && links_of(context, "#tmp/a") == 1);
  EXPECT(link(0666) && path_remove(user, "#tmp/all/a", false));
  EXPECT(write_file(user, "#tmp/all/own", "text"));
  EXPECT(path_link(user, "#tmp/all/own", user, "#tmp/all/too", Links::kNotLast));
  EXPECT(fails_with(Errno::EACCES,
                    path_link(user, "#tmp/all/own", user, "#tmp/d/e", Links::kNotLast)));
  for (const auto path : {"#tmp/all/own"sv, "#tmp/all/too"sv, "#tmp/a"sv})
    EXPECT(path_remove(context, path, false));
  for (const auto path : {"#tmp/all"sv, "#tmp/d"sv}) EXPECT(path_remove(context, path, true));
}

KTEST(ns_walks_follow_symbolic_links) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  for (const auto path : {"#tmp/d"sv, "#tmp/d/sub"sv, "#tmp/place"sv})
    EXPECT(path_mkdir(context, path, 0755));
  EXPECT(write_file(context, "#tmp/d/file", "text"));
  EXPECT(path_symlink(context, "../file", "#tmp/d/sub/up"));
  EXPECT(path_symlink(context, "d/sub//", "#tmp/to"));
  EXPECT(path_symlink(context, "/tmp/d/file", "#tmp/d/absolute"));
  EXPECT(path_symlink(context, "#tmp/d", "#tmp/device"));
  EXPECT(file_is(context, "#tmp/to/up", "text"));
  EXPECT(file_is(context, "#tmp/device/../to/./up", "text"));
  EXPECT(fails_with(Errno::ENOENT, path_walk(context, "#tmp/d/absolute")));  // nothing at /tmp yet
  EXPECT(path_bind(context, "#tmp", "/tmp", 0));
  EXPECT(file_is(context, "#tmp/d/absolute", "text") && file_is(context, "/tmp/to/up", "text"));
  // The canonical name contains no links, so `..` leads to the parent of the link's target.
  Result<Ref<Chan>> sub = path_walk(context, "/tmp/to");
  EXPECT(sub && (*sub)->path == "/tmp/d/sub"sv);
  if (sub) EXPECT(file_is(ns.context(sub->get()), "../file", "text"));
  // A relative link that is reached through a bind leads to files of the bound directory. A link
  // may also lead through a bind.
  EXPECT(path_bind(context, "/tmp/d", "/tmp/place", 0));
  EXPECT(file_is(context, "/tmp/place/sub/up", "text"));
  EXPECT(path_symlink(context, "place/file", "#tmp/into") && file_is(context, "/tmp/into", "text"));
  // In a union, a link's target is looked up in all members of the union, not only in the member
  // that has the link.
  EXPECT(path_symlink(context, "file", "#tmp/d/sub/beside"));
  EXPECT(path_bind(context, "/tmp/d/sub", "/tmp/d", ABI_BIND_BEFORE));
  EXPECT(file_is(context, "/tmp/d/beside", "text"));
  EXPECT(path_unmount(context, "/tmp/d") && path_unmount(context, "/tmp/place"));
  // With kNotLast, a walk does not follow a link at the end of the path.
  Result<Ref<Chan>> link = path_walk(context, "/tmp/to", Links::kNotLast);
  char target[kMaxPath];
  EXPECT(link && (*link)->qid.symlink && (*link)->device->readlink(**link, target).ok());
  Result<Ref<Chan>> beyond = path_walk(context, "/tmp/to/", Links::kNotLast);
  EXPECT(beyond && (*beyond)->qid.directory);
  EXPECT(fails_with(Errno::ELOOP, path_open(context, "/tmp/to", ABI_O_NOFOLLOW, 0)));
  EXPECT(fails_with(Errno::ENOTDIR, path_remove(context, "/tmp/to", true)));
  EXPECT(path_rename(context, "/tmp/to", "/tmp/toward") && links_of(context, "/tmp/toward") == 1);
  for (auto* const one : {&sub, &link, &beyond})
    if (*one) static_cast<void>(one->take());
  for (const auto path : {"#tmp/toward"sv, "#tmp/into"sv, "#tmp/device"sv, "#tmp/d/absolute"sv,
                          "#tmp/d/sub/up"sv, "#tmp/d/sub/beside"sv, "#tmp/d/file"sv})
    EXPECT(path_remove(context, path, false));
  for (const auto path : {"#tmp/d/sub"sv, "#tmp/d"sv, "#tmp/place"sv})
    EXPECT(path_remove(context, path, true));
}

KTEST(ns_links_that_are_too_long) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext context = ns.context();
  // A link's target and the rest of the path together must not exceed the maximum length of a path.
  static char longest[kMaxPath];
  for (size_t i = 0; i + 1 < sizeof longest; ++i) longest[i] = i % 2 ? '/' : '.';
  const std::string_view all(longest, sizeof longest - 1);
  EXPECT(path_symlink(context, all, "#tmp/long") && path_walk(context, "#tmp/long"));
  EXPECT(fails_with(Errno::ENAMETOOLONG, path_walk(context, "#tmp/long/xy")));
  EXPECT(
      fails_with(Errno::ENAMETOOLONG, path_symlink(context, {longest, sizeof longest}, "#tmp/l")));
  EXPECT(path_remove(context, "#tmp/long", false));
}

// A device in which every walk renames a directory. Its one name leads alternately to a directory
// and to a link to this directory's parent, so that each name that was valid is stale at once.
class RenamingDevice final : public EmptyDevice {
 public:
  constexpr RenamingDevice() : EmptyDevice("renaming") {}
  Result<Ref<Chan>> walk(Chan&, std::string_view, const Credentials&) override {
    directory_renamed();
    const bool link = ++walks % 2 == 0 && walks <= kLinks;
    return Chan::create(this, {.path = walks, .directory = !link, .symlink = link});
  }
  Result<size_t> readlink(Chan&, char* buffer) override {
    ++links_read;
    memcpy(buffer, "d/..", 4);
    return size_t{4};
  }

  static constexpr unsigned kLinks = 4;  // few, so that a recursion ends within the stack
  unsigned walks = 0, links_read = 0;
};

// The search for a present name follows no links and takes no `..`, where names may be stale again.
// Otherwise it would call itself as often as a user renames directories.
KTEST(ns_search_for_a_present_name_does_not_recurse) {
  LiveCounts live;
  static constinit RenamingDevice device;
  if (!device_find("renaming")) device_register(&device);
  TestNamespace ns;
  device.walks = device.links_read = 0;
  static_cast<void>(path_walk(ns.context(), "#renaming/d/.."));
  EXPECT(device.walks >= 2 && device.links_read == 0);
  EXPECT(fails_with(Errno::ENOENT, path_walk(ns.context(), "#tmp/..", Links::kNone)));
}

}  // namespace
