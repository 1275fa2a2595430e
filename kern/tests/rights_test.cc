// Set-user-id and set-group-id go when a file gets other contents or another owner.
#include "core/ktest.h"
#include "ns/namespace.h"
#include "proc/address_space.h"
#include "tests/ns_world.h"

namespace {

constexpr uint64_t kBase = 0x10000000;
constexpr uint32_t kReadWrite = ABI_PROT_READ | ABI_PROT_WRITE;
constexpr uint32_t kUser = 1000;

abi_stat stat_of(const PathContext& context, std::string_view path) {
  abi_stat stat{};
  Result<Ref<Chan>> chan = path_walk(context, path);
  EXPECT(chan && (*chan)->device->stat(**chan, stat));
  return stat;
}

uint32_t mode_of(const PathContext& context, std::string_view path) {
  return stat_of(context, path).mode & 07777;
}

void change(const PathContext& context, std::string_view path, const AttributeChange& change) {
  Result<Ref<Chan>> chan = path_walk(context, path);
  EXPECT(chan && (*chan)->device->set_attributes(**chan, change, context.who));
}

AttributeChange modified_at(int64_t seconds) {
  AttributeChange change;
  change.modified = AttributeChange::Time{.now = false, .at = {.sec = seconds, .nsec = 0}};
  return change;
}

// A space with a shared map of the first two pages of a file.
struct SharedMap {
  SharedMap(const PathContext& context, std::string_view path) {
    Ref<Chan> chan = path_open(context, path, ABI_O_RDWR, 0).take();
    EXPECT(chan->device->map(*chan, true));
    EXPECT(space->map(kBase, 2 * kPageSize, kReadWrite, true, {.file = chan, .shared = true}));
    space->announce();
  }
  bool store(uint64_t page) {
    const char byte = 'x';
    return space->write(kBase + page * kPageSize, &byte, 1).ok();
  }

  Ref<AddressSpace> space = AddressSpace::create().take();
};

// A file of kUser with set-user-id and set-group-id, of two pages.
void make_file(const PathContext& root, const PathContext& user) {
  EXPECT(write_file(user, "#tmp/program", "code"));
  EXPECT(path_truncate(root, "#tmp/program", 2 * kPageSize));
  change(user, "#tmp/program", mode_change(06755));
}

}  // namespace

KTEST(rights_go_with_a_store_through_a_shared_map) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context(), user = ns.context(nullptr, kUser);
  make_file(root, user);
  {
    SharedMap map(user, "#tmp/program");
    EXPECT(map.space->fault(kBase, FaultAccess::kRead) && mode_of(root, "#tmp/program") == 06755);
    EXPECT(map.store(0) && mode_of(root, "#tmp/program") == 0755);
    // The page is writable by now. The bits, when set again, still go with the next store.
    change(user, "#tmp/program", mode_change(06755));
    EXPECT(map.store(0) && mode_of(root, "#tmp/program") == 0755);
    change(user, "#tmp/program", mode_change(04755));
    EXPECT(map.store(1) && mode_of(root, "#tmp/program") == 0755);
    change(user, "#tmp/program", mode_change(02755));
  }
  EXPECT(mode_of(root, "#tmp/program") == 02755);
  {
    // As for writes, root's stores keep the bits.
    SharedMap map(root, "#tmp/program");
    EXPECT(map.store(0) && mode_of(root, "#tmp/program") == 02755);
  }
  EXPECT(path_remove(root, "#tmp/program", false));
}

KTEST(rights_tell_the_time_of_a_store_through_a_shared_map) {
  TestNamespace ns;
  const PathContext root = ns.context();
  make_file(root, ns.context(nullptr, kUser));
  const auto modified = [&] { return stat_of(root, "#tmp/program").mtime.sec; };
  {
    SharedMap map(root, "#tmp/program");
    EXPECT(map.space->fault(kBase, FaultAccess::kRead));
    change(root, "#tmp/program", modified_at(1));
    EXPECT(modified() == 1 && map.store(0) && modified() > 1);
    change(root, "#tmp/program", modified_at(2));
    EXPECT(map.store(0) && modified() > 2);
    const abi_stat before = stat_of(root, "#tmp/program");
    EXPECT(map.space->sync(kBase, 2 * kPageSize, true));
    EXPECT(map.store(0));
    const abi_stat after = stat_of(root, "#tmp/program");
    EXPECT(after.mtime.sec > before.mtime.sec ||
           (after.mtime.sec == before.mtime.sec && after.mtime.nsec > before.mtime.nsec));
    change(root, "#tmp/program", modified_at(3));
  }
  EXPECT(modified() == 3);  // the end of the map is no store
  EXPECT(path_remove(root, "#tmp/program", false));
}

KTEST(rights_go_with_a_change_of_the_owner) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context(), user = ns.context(nullptr, kUser);
  make_file(root, user);
  const auto set_owner = [&](std::string_view path, std::optional<uint32_t> uid,
                             std::optional<uint32_t> gid, std::optional<uint32_t> mode = {}) {
    AttributeChange owner;
    owner.uid = uid;
    owner.gid = gid;
    owner.mode = mode;
    change(root, path, owner);
    return mode_of(root, path);
  };
  EXPECT(set_owner("#tmp/program", 0, {}) == 0755);
  EXPECT(set_owner("#tmp/program", kUser, 7, 06711) == 06711);  // the caller has named a mode
  EXPECT(set_owner("#tmp/program", {}, 8) == 0711);
  EXPECT(path_remove(root, "#tmp/program", false));
  // A directory's set-group-id gives no rights.
  EXPECT(path_mkdir(root, "#tmp/shared", 0755));
  change(root, "#tmp/shared", mode_change(02755));
  EXPECT(set_owner("#tmp/shared", kUser, kUser) == 02755);
  EXPECT(path_remove(root, "#tmp/shared", true));
}

KTEST(rights_of_new_nodes_in_a_directory_with_set_group_id) {
  LiveCounts live;
  TestNamespace ns;
  const PathContext root = ns.context(), user = ns.context(nullptr, kUser);
  EXPECT(path_mkdir(root, "#tmp/shared", 0777));
  AttributeChange group;
  group.gid = 7;
  change(root, "#tmp/shared", group);
  change(root, "#tmp/shared", mode_change(02777));
  EXPECT(write_file(user, "#tmp/shared/file", "") && path_mkdir(user, "#tmp/shared/dir", 0755));
  EXPECT(path_symlink(user, "file", "#tmp/shared/link"));
  EXPECT(path_make(user, "#tmp/shared/fifo", ABI_S_IFIFO | 0600));
  for (const std::string_view path :
       {"#tmp/shared/file", "#tmp/shared/dir", "#tmp/shared/link", "#tmp/shared/fifo"}) {
    Result<Ref<Chan>> chan = path_walk(root, path, Links::kNotLast);
    abi_stat stat;
    EXPECT(chan && (*chan)->device->stat(**chan, stat) && stat.gid == 7 && stat.uid == kUser);
    EXPECT(((stat.mode & ABI_S_ISGID) != 0) == (*chan)->qid.directory);
    EXPECT(path_remove(root, path, (*chan)->qid.directory));
  }
  EXPECT(path_remove(root, "#tmp/shared", true));
}
