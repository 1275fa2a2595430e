// #tmp: files and directories in memory.
//
// A node is a file, a directory, a symbolic link or a FIFO. An entry is a name of a node in a
// directory; a file may have several entries (hard links). A node lives as long as an entry or a
// channel refers to it: a file that was removed while open stays readable until it is closed, and
// is then freed. A file's bytes lie in pages of the cache `tmp_page`. An array of pointers finds
// the pages. The array usually doubles when the file outgrows it, and shrinks when the file needs
// less than half of it. A page that was never written is a hole and reads as zeros. All files and
// their structures together may use half of memory, so a full #tmp leaves enough memory to run the
// `rm` that empties it. A process that maps a file maps these same pages; truncating the file
// unmaps the pages that are cut off. Anonymous memory that processes share is a file without a
// name. The contents of a FIFO are in the pipe device (pipe.cc).
//
// One sleeping lock for the device guards names, contents and attributes. The lock is held while
// one read or write is copied, and while a directory is searched for one name or for a reader's
// next entry. A call that changes a directory checks the permissions and makes the change under the
// lock, without releasing the lock in between. References to nodes are counted without the lock. A
// channel's qid path is the number of the node, which is never reused. The channel's state is the
// node itself. Only the channel of an open directory has another state, a Reader: it has the node
// and the last entry that was read, so that the next entry is usually found without a search. If an
// entry has been removed since, the search begins with the directory's first entry.
//
// A read updates the access time only if the access time is not later than the time of the last
// change. So a program can tell whether a file was read after the last write, and repeated reads do
// not change the node. A write or truncation by any user but root clears a file's set-user-id and
// set-group-id bits; so does a store through a shared map. The first store to each mapped page
// counts as a write. msync, and each call that sets these bits or the modification time, begin
// anew: the next store is a first one again.

#include <algorithm>

#include "arch/x86_64/paging.h"
#include "core/errstr.h"
#include "core/planted.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/tmp_node.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "ns/namespace.h"
#include "pages.h"
#include "sched/task.h"

namespace {

using tmp::Entry, tmp::Name, tmp::Node, tmp::now;

// The state of an open directory.
struct Reader {
  Ref<Node> node;
  // Under the device's lock.
  Entry* last = nullptr;  // the entry that was read last; valid while node->removals == removals
  uint64_t removals = 0;  // node->removals when `last` was read
};

constinit ObjectCache<Reader> reader_cache;

// Owns an entry that is in no directory.
class SpareEntry {
 public:
  explicit SpareEntry(Entry* entry = nullptr) : entry_(entry) {}
  ~SpareEntry() { Entry::destroy(entry_); }
  SpareEntry(const SpareEntry&) = delete;
  SpareEntry& operator=(const SpareEntry&) = delete;
  void keep(Entry* entry) { entry_ = entry; }
  Entry& use() { return *std::exchange(entry_, nullptr); }

 private:
  Entry* entry_;
};

// Checks that `who` may make and remove names in the directory. EACCES.
Result<void> check_writable(const Node& directory, const Credentials& who) {
  return permitted(directory.mode, directory.uid, directory.gid, who, 3) ? Result<void>()
                                                                         : Errno::EACCES;
}
// Checks whether the directory's sticky bit lets `who` remove this entry. `who` has write
// permission for the directory. EPERM.
Result<void> check_sticky(const Entry& entry, const Credentials& who) {
  const Node& directory = *entry.directory;
  const bool may = who.uid == 0 || !(directory.mode & 01000) || directory.uid == who.uid ||
                   entry.node->uid == who.uid;
  return may ? Result<void>() : Errno::EPERM;
}

// In a directory with set-group-id, a new node gets the directory's group, and a new directory gets
// set-group-id, too.
void inherit_group(const Node& directory, Node& made) {
  if (!(directory.mode & ABI_S_ISGID)) return;
  made.gid = directory.gid;
  if (made.is_directory()) made.mode |= ABI_S_ISGID;
}

// Copies the name of `entry` to `name`, a buffer of 256 bytes.
void put_name(const Entry& entry, char* name) {
  const std::string_view view = entry.name.view();
  memcpy(name, view.data(), view.size());
  name[view.size()] = '\0';
}

bool is_later(const abi_timespec& a, const abi_timespec& b) {
  return a.sec != b.sec ? a.sec > b.sec : a.nsec > b.nsec;
}
void was_read(Node& node) {
  if (!is_later(node.accessed, node.modified) || !is_later(node.accessed, node.changed))
    node.accessed = now();
}
void was_written(Node& node, uint32_t uid) {
  node.modified = node.changed = now();
  if (uid != 0) node.mode &= ~uint32_t{ABI_S_ISUID | ABI_S_ISGID};
}

class TmpDevice final : public Device {
 public:
  constexpr TmpDevice() : Device("tmp") {}
  void init();

  Result<Ref<Chan>> attach(std::string_view spec) override;
  Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) override;
  Result<void> stat(Chan& chan, abi_stat& stat) override;
  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override;
  Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags, uint32_t mode,
                           const Credentials& who) override;
  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) override;
  Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) override;
  Result<void> map(Chan& chan, bool writes) override;
  Result<FilePage> page(Chan& chan, uint64_t index) override;
  void stored(Chan& chan) override;
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override;
  // Implements shared_memory_create.
  Result<Ref<Chan>> create_nameless(uint64_t size);
  void close(Chan& chan) override;
  Result<void> clone_state(Chan& chan, Chan& copy) override;
  Result<void> remove(Chan& chan, const DirectoryEntry& from, const Credentials& who) override;
  Result<void> rename(Chan& chan, const DirectoryEntry& from, const DirectoryEntry& to,
                      const Credentials& who) override;
  Result<Ref<Chan>> parent(Chan& chan, char* name) override;
  Result<void> truncate(Chan& chan, uint64_t size, const Credentials& who) override;
  Result<void> symlink(Chan& directory, std::string_view name, std::string_view target,
                       const Credentials& who) override;
  Result<size_t> readlink(Chan& chan, char* target) override;
  Result<void> link(Chan& chan, const DirectoryEntry& to, const Credentials& who) override;
  Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                              const Credentials& who) override;
  Result<void> statfs(Chan& chan, abi_statfs& result) override;
  bool one_offset() const override { return true; }

 private:
  static bool has_reader(const Chan& chan) { return chan.is_open && chan.qid.directory; }
  static Reader& reader_of(Chan& chan) { return *static_cast<Reader*>(chan.state); }
  static Node& node_of(Chan& chan) {
    return has_reader(chan) ? *reader_of(chan).node : *static_cast<Node*>(chan.state);
  }
  // Marks `chan` as open; a directory also gets its Reader. After ENOMEM `chan` is unchanged.
  static Result<void> set_open(Chan& chan, uint32_t flags);
  // Finds the entry `from` of the node, and checks that `who` may remove the entry. EBUSY if the
  // node is the root; ENOENT if the node does not have this name any more; EACCES, EPERM.
  Result<Entry*> detachable(Node& node, const DirectoryEntry& from, const Credentials& who);
  // Makes a node that `who` owns and that is in no directory.
  static Result<Ref<Node>> make_node(uint32_t mode, const Credentials& who);
  // Checks that `who` may make `name` in the directory, and that the name does not exist there.
  // ENOENT if the directory has been removed, EACCES, EEXIST.
  static Result<void> check_making(Node& directory, std::string_view name, const Credentials& who);
  Result<Ref<Chan>> channel(Node& node);
  void stat_node(const Node& node, abi_stat& stat) const;

  Mutex lock_{LockRank::kDeviceMutex};
  // `lock_` guards all nodes.
  HeldRef<Node> root_;  // set at boot
  uint64_t next_number_ GUARDED_BY(lock_) = 1;
};

constinit TmpDevice device;

void TmpDevice::init() {
  tmp::nodes_init(*this);
  reader_cache.init("tmp_reader");
  Result<Ref<Node>> root = make_node(ABI_S_IFDIR | 01777, {});
  if (!root) panic_no_cache("tmp_node");
  root_ = root->release();
}

// Makes a channel with a reference to `node`.
Result<Ref<Chan>> TmpDevice::channel(Node& node) {
  Ref<Chan> chan = TRY(Chan::create(this, {.path = node.number,
                                           .version = 0,
                                           .directory = node.is_directory(),
                                           .symlink = node.is_symlink(),
                                           .fifo = node.is_fifo()}));
  chan->keep(Ref<Node>(&node));
  return chan;
}

Result<Ref<Chan>> TmpDevice::attach(std::string_view spec) {
  if (!spec.empty()) return fail(Errno::ENXIO, "#tmp takes no argument after its name");
  return channel(*root_.object);
}

Result<Ref<Chan>> TmpDevice::walk(Chan& chan, std::string_view name, const Credentials&) {
  if (!chan.qid.directory) return Errno::ENOTDIR;
  MutexGuard guard(lock_);
  Entry* const entry = find(node_of(chan), name);
  if (!entry) return Errno::ENOENT;
  return channel(*entry->node);
}

void TmpDevice::stat_node(const Node& node, abi_stat& stat) const {
  fill_stat(stat, node.number, node.mode, node.size);
  stat.nlink = node.gone() ? 0 : node.is_directory() ? 2 + node.subdirectories : node.links;
  stat.uid = node.uid;
  stat.gid = node.gid;
  stat.blocks = node.page_count * (kPageSize / 512);
  stat.atime = node.accessed;
  stat.mtime = node.modified;
  stat.ctime = node.changed;
}

Result<void> TmpDevice::stat(Chan& chan, abi_stat& stat) {
  MutexGuard guard(lock_);
  stat_node(node_of(chan), stat);
  return {};
}

Result<void> TmpDevice::set_open(Chan& chan, uint32_t flags) {
  if (chan.qid.directory) {
    Reader* const reader = TRY(reader_cache.make(KM_SLEEP));
    reader->node = chan.take_kept<Node>();
    chan.state = reader;
  }
  chan.is_open = true;
  chan.open_flags = flags;
  return {};
}

Result<Ref<Chan>> TmpDevice::open(Ref<Chan> chan, uint32_t flags, const Credentials& who) {
  const uint32_t want = wanted_by_open(flags);
  if (chan->qid.directory && (want & 2)) return Errno::EISDIR;
  MutexGuard guard(lock_);
  Node& node = node_of(*chan);
  if (!permitted(node.mode, node.uid, node.gid, who, want)) return Errno::EACCES;
  TRY(set_open(*chan, flags));
  return chan;
}

Result<Ref<Node>> TmpDevice::make_node(uint32_t mode, const Credentials& who) {
  Ref<Node> node = TRY(Node::make());
  node->mode = mode;
  node->uid = who.uid;
  node->gid = who.gid;
  node->accessed = node->modified = node->changed = now();
  return node;
}

Result<void> TmpDevice::check_making(Node& directory, std::string_view name,
                                     const Credentials& who) {
  if (directory.gone()) return Errno::ENOENT;
  TRY(check_writable(directory, who));
  return find(directory, name) ? Errno::EEXIST : Result<void>();
}

Result<Ref<Chan>> TmpDevice::create(Chan& directory, std::string_view name, uint32_t flags,
                                    uint32_t mode, const Credentials& who) {
  Ref<Node> node = TRY(make_node(mode, who));
  Result<Entry*> entry = Entry::make(name);
  if (!entry && planted(Planted::kCreateError)) static_cast<void>(node.release());
  SpareEntry spare(TRY(std::move(entry)));
  MutexGuard guard(lock_);
  Node& parent = node_of(directory);
  if (parent.gone()) {
    if (planted(Planted::kCreateGone)) static_cast<void>(node.release());
    return Errno::ENOENT;
  }
  TRY(check_making(parent, name, who));
  inherit_group(parent, *node);
  node->number = next_number_++;
  Ref<Chan> chan = TRY(channel(*node));
  TRY(set_open(*chan, flags));
  insert(parent, spare.use(), std::move(node));
  return chan;
}

Result<void> TmpDevice::symlink(Chan& directory, std::string_view name, std::string_view target,
                                const Credentials& who) {
  Ref<Node> node = TRY(make_node(ABI_S_IFLNK | 0777, who));
  node->target = TRY(Name::copy(target));
  node->size = target.size();
  SpareEntry spare(TRY(Entry::make(name)));
  MutexGuard guard(lock_);
  Node& parent = node_of(directory);
  TRY(check_making(parent, name, who));
  inherit_group(parent, *node);
  node->number = next_number_++;
  insert(parent, spare.use(), std::move(node));
  return {};
}

Result<size_t> TmpDevice::readlink(Chan& chan, char* target) {
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (!node.is_symlink()) return Errno::EINVAL;
  was_read(node);
  const std::string_view text = node.target.view();
  memcpy(target, text.data(), text.size());
  return text.size();
}

Result<void> TmpDevice::link(Chan& chan, const DirectoryEntry& to, const Credentials& who) {
  SpareEntry spare(TRY(Entry::make(to.name)));
  MutexGuard guard(lock_);
  Node &node = node_of(chan), &parent = node_of(to.directory);
  if (node.gone()) return Errno::ENOENT;
  TRY(check_making(parent, to.name, who));
  insert(parent, spare.use(), Ref<Node>(&node));
  return {};
}

Result<size_t> TmpDevice::read(Chan& chan, char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  was_read(node);
  if (offset >= node.size) return size_t{0};
  size = std::min<uint64_t>(size, node.size - offset);
  read_pages(node, buffer, size, offset);
  return size;
}

Result<size_t> TmpDevice::write(Chan& chan, const char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (size == 0) return size_t{0};
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  const bool append = chan.open_flags & ABI_O_APPEND;
  if (append) offset = node.size;
  if (offset >= tmp::kMaxFileSize || size > tmp::kMaxFileSize - offset) return Errno::EFBIG;
  const size_t done = TRY(write_pages(node, buffer, size, offset));
  if (append) chan.offset = offset + done;
  was_written(node, chan.opener.uid);
  return done;
}

Result<void> TmpDevice::map(Chan& chan, bool writes) {
  if (chan.qid.directory || chan.qid.symlink || chan.qid.fifo) return Errno::ENODEV;
  if (!writes) return {};
  MutexGuard guard(lock_);
  node_of(chan).mapped_to_write = true;
  return {};
}

Result<FilePage> TmpDevice::page(Chan& chan, uint64_t index) {
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (index >= align_up(node.size, kPageSize) / kPageSize) return Errno::ENXIO;
  const PhysAddr page = direct_map_phys(TRY(tmp::page_at(node, index)));
  if (!page_mapped(page)) return Errno::ENOSPC;
  return FilePage{page, &node.changes, node.changes.load(std::memory_order_relaxed)};
}

void TmpDevice::stored(Chan& chan) {
  MutexGuard guard(lock_);
  was_written(node_of(chan), chan.opener.uid);
}

Result<Ref<Chan>> TmpDevice::create_nameless(uint64_t size) {
  if (size > tmp::kMaxFileSize) return Errno::ENOMEM;
  Ref<Node> node = TRY(make_node(ABI_S_IFREG, {}));
  Charge charge = TRY(charge_current(Charged::kFile));
  Ref<Chan> chan;
  {
    MutexGuard guard(lock_);
    node->number = next_number_++;
    node->size = size;
    chan = TRY(channel(*node));
  }
  TRY(set_open(*chan, ABI_O_RDWR));
  chan->charge = std::move(charge);
  return chan;
}

Result<void> TmpDevice::entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) {
  MutexGuard guard(lock_);
  Reader& reader = reader_of(directory);
  auto& children = reader.node->children;
  auto at = children.begin();
  if (reader.last && reader.removals == reader.node->removals && reader.last->position < position)
    at = decltype(at)(&reader.last->in_directory);
  while (at != children.end() && (*at).position < position) ++at;
  was_read(*reader.node);
  if (!(at != children.end())) return Errno::ENOENT;
  Entry& found = *at;
  reader.last = &found;
  reader.removals = reader.node->removals;
  stat_node(*found.node, entry);
  put_name(found, name);
  position = found.position + 1;
  return {};
}

void TmpDevice::close(Chan& chan) {
  if (!chan.state) return;
  if (has_reader(chan)) {
    reader_cache.destroy(&reader_of(chan));
  } else {
    chan.take_kept<Node>();
  }
}

Result<void> TmpDevice::clone_state(Chan& chan, Chan& copy) {
  copy.keep(Ref<Node>(&node_of(chan)));
  return {};
}

Result<Entry*> TmpDevice::detachable(Node& node, const DirectoryEntry& from,
                                     const Credentials& who) {
  if (&node == root_.object) return Errno::EBUSY;
  Node* const directory = &node_of(from.directory);
  for (Entry& entry : node.entries) {
    if (entry.directory != directory || entry.name.view() != from.name) continue;
    TRY(check_writable(*directory, who));
    TRY(check_sticky(entry, who));
    return &entry;
  }
  return Errno::ENOENT;
}

Result<void> TmpDevice::remove(Chan& chan, const DirectoryEntry& from, const Credentials& who) {
  Ref<Node> removed;  // destroyed after `guard`, so the node is released without the lock
  SpareEntry left;
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  Entry* const entry = TRY(detachable(node, from, who));
  if (!node.children.empty()) return Errno::ENOTEMPTY;
  removed = detach(*entry);
  left.keep(entry);
  return {};
}

Result<void> TmpDevice::rename(Chan& chan, const DirectoryEntry& from, const DirectoryEntry& to,
                               const Credentials& who) {
  Name name = TRY(Name::copy(to.name));
  Ref<Node> replaced;
  SpareEntry left;
  MutexGuard guard(lock_);
  Node &node = node_of(chan), &target = node_of(to.directory);
  Entry* const entry = TRY(detachable(node, from, who));
  if (target.gone()) return Errno::ENOENT;
  TRY(check_writable(target, who));
  for (Node* above = &target; above; above = above->parent())
    if (above == &node) return fail(Errno::EINVAL, "a directory cannot be moved into itself");
  if (Entry* const existing = find(target, to.name)) {
    Node& other = *existing->node;
    if (&other == &node) return {};  // both are names of one file: nothing to do
    TRY(check_sticky(*existing, who));
    if (other.is_directory() && !node.is_directory()) return Errno::EISDIR;
    if (!other.is_directory() && node.is_directory()) return Errno::ENOTDIR;
    if (!other.children.empty()) return Errno::ENOTEMPTY;
    replaced = detach(*existing);
    left.keep(existing);
  }
  Ref<Node> moving = detach(*entry);
  entry->name = std::move(name);
  if (replaced && planted(Planted::kRenameName)) name.lose();
  insert(target, *entry, std::move(moving));
  return {};
}

Result<Ref<Chan>> TmpDevice::parent(Chan& chan, char* name) {
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (&node == root_.object) return Ref<Chan>();
  if (node.gone()) return Errno::ENOENT;
  const Entry& entry = *node.entries.front();
  put_name(entry, name);
  return channel(*entry.directory);
}

Result<void> TmpDevice::truncate(Chan& chan, uint64_t size, const Credentials& who) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (size > tmp::kMaxFileSize) return Errno::EFBIG;
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (node.is_fifo()) return Errno::EINVAL;
  if (chan.is_open ? !(wanted_by_open(chan.open_flags) & 2)
                   : !permitted(node.mode, node.uid, node.gid, who, 2))
    return Errno::EACCES;
  resize(node, size);
  was_written(node, who.uid);
  return {};
}

Result<void> TmpDevice::set_attributes(Chan& chan, const AttributeChange& change,
                                       const Credentials& who) {
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  abi_stat before;
  stat_node(node, before);
  AttributeChange allowed = change;
  TRY(check_attributes(before, allowed, who));
  const bool gives_rights = allowed.mode && (*allowed.mode & (ABI_S_ISUID | ABI_S_ISGID));
  if (gives_rights || allowed.modified) tmp::await_stores(node);
  const abi_timespec present = now();
  if (allowed.mode) node.mode = (node.mode & ABI_S_IFMT) | *allowed.mode;
  if (allowed.uid) node.uid = *allowed.uid;
  if (allowed.gid) node.gid = *allowed.gid;
  if (allowed.accessed) node.accessed = allowed.accessed->now ? present : allowed.accessed->at;
  if (allowed.modified) node.modified = allowed.modified->now ? present : allowed.modified->at;
  node.changed = present;
  return {};
}

Result<void> TmpDevice::statfs(Chan& chan, abi_statfs& result) {
  TRY(Device::statfs(chan, result));
  const uint64_t allowed = tmp::bytes_allowed();
  result.blocks = allowed / kPageSize;
  result.blocks_free = (allowed - std::min(allowed, tmp::bytes_used())) / kPageSize;
  const uint64_t reserve = allowed / kPageSize / 8;  // root's
  result.blocks_available = result.blocks_free - std::min(result.blocks_free, reserve);
  return {};
}

}  // namespace

Result<Ref<Chan>> shared_memory_create(uint64_t size) {
  return device.create_nameless(size);
}

void tmp_device_init() {
  device.init();
  device_register(&device);
}
