// #tmp: files and directories in memory.
//
// A node is a file or a directory. It lives as long as its directory lists it or a channel refers
// to it, so a file that was removed while open stays readable until it is closed, and then gives
// everything back. A file's bytes lie in pages of the cache `tmp_page`, found through an array that
// doubles as the file grows and shrinks with it; a page that was never written is a hole and reads
// as zeros. All files together have at most half of memory, with everything that they are made of
// counted, so that with a full #tmp there is enough left to run the `rm` that empties it.
//
// One sleeping lock for the device guards names, contents and attributes; it is held for the
// copying of one read or write, and while a directory is searched for one name or for the next that
// a reader wants. Whether somebody may change a directory is asked with it held, in one step with
// the change. Nodes are counted without it. A channel's state is its node; the qid path is the
// node's number, which is never used twice. An open directory's state knows besides which entry was
// read last, so that the next one is not searched for.

#include <algorithm>
#include <atomic>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/planted.h"
#include "drivers/dev/devices.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/list.h"
#include "lib/string.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "pages.h"
#include "sched/task.h"

namespace {

constexpr uint64_t kMaxFileSize = uint64_t{4} << 30;

abi_timespec now() {
  const uint64_t since_boot = monotonic_now().value;
  return {static_cast<int64_t>(boot_wall_seconds() + since_boot / 1'000'000'000),
          static_cast<int64_t>(since_boot % 1'000'000'000)};
}

constinit kmem_cache* page_cache = nullptr;
constinit std::atomic<uint64_t> bytes_held = 0;  // by nodes, names, arrays and pages
constinit uint64_t most_bytes = 0;               // that they may have

// ENOSPC if less than `bytes` is left of the share of all files.
Result<void> charge(size_t bytes) {
  if (bytes_held.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most_bytes) return {};
  bytes_held.fetch_sub(bytes, std::memory_order_relaxed);
  return Errno::ENOSPC;
}
void discharge(size_t bytes) {
  bytes_held.fetch_sub(bytes, std::memory_order_relaxed);
}

// The name of a node.
class Name {
 public:
  Name() = default;
  // ENOMEM, ENOSPC.
  static Result<Name> copy(std::string_view name) {
    TRY(charge(name.size()));
    char* const text = static_cast<char*>(kmalloc(name.size(), KM_SLEEP));
    if (!text) {
      discharge(name.size());
      return Errno::ENOMEM;
    }
    memcpy(text, name.data(), name.size());
    return Name({text, name.size()});
  }
  Name(Name&& other) noexcept : text_(std::exchange(other.text_, {})) {}
  Name& operator=(Name&& other) noexcept {
    std::swap(text_, other.text_);
    return *this;
  }
  ~Name() {
    discharge(text_.size());
    kfree(const_cast<char*>(text_.data()));
  }
  std::string_view view() const { return text_; }
  void lose() { text_ = {}; }  // for planted bugs

 private:
  explicit Name(std::string_view text) : text_(text) {}
  std::string_view text_;  // kmalloc'ed
};

struct Node : RefCounted<Node> {
  static constexpr RefKind kRefKind = RefKind::kTmpNode;
  static Result<Ref<Node>> make();  // ENOMEM, ENOSPC
  static void destroy(Node* node);

  uint64_t number = 0;
  // Under the device's lock, as everything here.
  uint32_t mode = 0, uid = 0, gid = 0;
  abi_timespec modified{}, changed{};

  // In its directory: nullptr and not linked when removed, and for the root. The directory outlives
  // its entries.
  Node* parent = nullptr;
  ListNode link;
  Ref<Node> entry;  // the directory's reference to this node
  Name name;
  uint64_t position = 0;  // ascending in the directory, for reading it

  // A directory's.
  List<Node, &Node::link> children;
  uint64_t next_position = 1;
  uint64_t removals = 0;  // entries that have been taken out

  // A file's.
  uint64_t size = 0;
  char** pages = nullptr;  // kmalloc'ed
  size_t page_slots = 0;

  bool is_directory() const { return (mode & ABI_S_IFMT) == ABI_S_IFDIR; }
  bool gone() const { return !parent && number != 0; }
};

// The state of an open directory.
struct Reader {
  Ref<Node> node;
  // Under the device's lock.
  Node* last = nullptr;   // the entry that was read last; good while
  uint64_t removals = 0;  // node.removals is this
};

constinit ObjectCache<Node> node_cache;
constinit ObjectCache<Reader> reader_cache;

// A page for a file, not cleared. ENOMEM, ENOSPC.
Result<char*> make_page() {
  TRY(charge(kPageSize));
  if (auto* const page = static_cast<char*>(kmem_cache_alloc(page_cache, KM_SLEEP))) return page;
  discharge(kPageSize);
  return Errno::ENOMEM;
}

void free_pages_from(Node& node, size_t first) {
  for (size_t i = first; i < node.page_slots; ++i) {
    if (!node.pages[i]) continue;
    kmem_cache_free(page_cache, std::exchange(node.pages[i], nullptr));
    discharge(kPageSize);
  }
}

// Gives the file an array of `slots`, 0 for none; there is no page beyond them. ENOMEM, ENOSPC.
Result<void> set_slots(Node& node, size_t slots) {
  const size_t before = node.page_slots;
  if (slots > before) TRY(charge((slots - before) * sizeof(char*)));
  char** pages = nullptr;
  if (slots > 0) {
    pages = static_cast<char**>(kmalloc(slots * sizeof(char*), KM_SLEEP | KM_ZERO));
    if (!pages) {
      if (slots > before) discharge((slots - before) * sizeof(char*));
      return Errno::ENOMEM;
    }
    std::copy(node.pages, node.pages + std::min(slots, before), pages);
  }
  kfree(std::exchange(node.pages, pages));
  node.page_slots = slots;
  if (slots < before) discharge((before - slots) * sizeof(char*));
  return {};
}

Result<Ref<Node>> Node::make() {
  TRY(charge(sizeof(Node)));
  Result<Node*> node = node_cache.make(KM_SLEEP);
  if (node) return Ref<Node>::first(*node);
  discharge(sizeof(Node));
  return node.error();
}

void Node::destroy(Node* node) {
  free_pages_from(*node, 0);
  static_cast<void>(set_slots(*node, 0));
  node_cache.destroy(node);
  discharge(sizeof(Node));
}

size_t slots_for(uint64_t size) {
  return align_up(size, kPageSize) / kPageSize;
}

// Makes room in the array for `slots` pages. ENOMEM, ENOSPC.
Result<void> grow(Node& node, size_t slots) {
  if (slots <= node.page_slots) return {};
  const size_t ahead = std::min(std::max<size_t>(node.page_slots * 2, 4), slots_for(kMaxFileSize));
  return set_slots(node, std::max(slots, ahead));
}

// Gives back what the array has beyond twice what the file's size needs, or keeps it when there is
// no memory for a smaller one.
void fit(Node& node) {
  const size_t needed = slots_for(node.size);
  if (node.page_slots > std::max<size_t>(needed * 2, 4) || needed == 0)
    static_cast<void>(set_slots(node, needed));
}

void resize_down(Node& node, uint64_t size) {
  free_pages_from(node, slots_for(size));
  const size_t last = size / kPageSize, rest = size % kPageSize;
  if (rest && last < node.page_slots && node.pages[last])
    memset(node.pages[last] + rest, 0, kPageSize - rest);
  node.size = size;
  fit(node);
}

Node* find(Node& directory, std::string_view name) {
  for (Node& node : directory.children)
    if (name == node.name.view()) return &node;
  return nullptr;
}

// Whether `who` may make and remove names in the directory. EACCES.
Result<void> check_writable(const Node& directory, const Credentials& who) {
  return permitted(directory.mode, directory.uid, directory.gid, who, 3) ? Result<void>()
                                                                         : Errno::EACCES;
}
// Whether `who` may take the node's name away, which is in a directory of his to write. EPERM.
Result<void> check_sticky(const Node& node, const Credentials& who) {
  const Node& directory = *node.parent;
  const bool may =
      who.uid == 0 || !(directory.mode & 01000) || directory.uid == who.uid || node.uid == who.uid;
  return may ? Result<void>() : Errno::EPERM;
}

// `name` has 256 bytes.
void put_name(const Node& node, char* name) {
  const std::string_view view = node.name.view();
  memcpy(name, view.data(), view.size());
  name[view.size()] = '\0';
}

void insert(Node& directory, Ref<Node> ref) {
  Node& node = *ref;
  node.entry = std::move(ref);
  node.parent = &directory;
  node.position = directory.next_position++;
  directory.children.push_back(node);
  directory.modified = directory.changed = now();
}

// Takes a node out of its directory; the directory's reference goes to the caller.
Ref<Node> detach(Node& node) {
  node.parent->modified = node.parent->changed = node.changed = now();
  ++node.parent->removals;
  node.link.unlink();
  node.parent = nullptr;
  return std::move(node.entry);
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
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override;
  void close(Chan& chan) override;
  Result<void> clone_state(Chan& chan, Chan& copy) override;
  Result<void> remove(Chan& chan, const Place& from, const Credentials& who) override;
  Result<void> rename(Chan& chan, const Place& from, const Place& to,
                      const Credentials& who) override;
  Result<Ref<Chan>> parent(Chan& chan, char* name) override;
  Result<void> truncate(Chan& chan, uint64_t size, const Credentials& who) override;
  Result<void> chmod(Chan& chan, uint32_t mode, const Credentials& who) override;
  bool one_offset() const override { return true; }

 private:
  static bool has_reader(const Chan& chan) { return chan.is_open && chan.qid.directory; }
  static Reader& reader_of(Chan& chan) { return *static_cast<Reader*>(chan.state); }
  static Node& node_of(Chan& chan) {
    return has_reader(chan) ? *reader_of(chan).node : *static_cast<Node*>(chan.state);
  }
  // Makes `chan` an open file. ENOMEM: it is as it was.
  static Result<void> set_open(Chan& chan, uint32_t flags);
  // Whether the name `from` is the node's still, and `who` may take it away.
  Result<void> check_detachable(Node& node, const Place& from, const Credentials& who);
  Result<Ref<Chan>> channel(Node& node);
  void stat_node(const Node& node, abi_stat& stat) const;

  Mutex lock_{LockRank::kDeviceMutex};
  // Under `lock_`, with all nodes.
  HeldRef<Node> root_;
  uint64_t next_number_ GUARDED_BY(lock_) = 1;
};

constinit TmpDevice device;

void TmpDevice::init() {
  node_cache.init("tmp_node");
  reader_cache.init("tmp_reader");
  page_cache =
      kmem_cache_create("tmp_page", kPageSize, kPageSize, 0, nullptr, nullptr, nullptr, nullptr);
  if (!page_cache) panic_no_cache("tmp_page");
  most_bytes = memory_totals().total / 2;
  Result<Ref<Node>> root = Node::make();
  if (!root) panic_no_cache("tmp_node");
  (*root)->mode = ABI_S_IFDIR | 01777;
  (*root)->modified = (*root)->changed = now();
  root_ = root->release();
}

// A channel with a reference to `node`.
Result<Ref<Chan>> TmpDevice::channel(Node& node) {
  Ref<Chan> chan = TRY(
      Chan::create(this, {.path = node.number, .version = 0, .directory = node.is_directory()}));
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
  Node* const node = find(node_of(chan), name);
  if (!node) return Errno::ENOENT;
  return channel(*node);
}

void TmpDevice::stat_node(const Node& node, abi_stat& stat) const {
  fill_stat(stat, node.number, node.mode, node.size);
  stat.nlink = node.gone() ? 0 : node.is_directory() ? 2 : 1;
  stat.uid = node.uid;
  stat.gid = node.gid;
  stat.atime = stat.mtime = node.modified;
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

Result<Ref<Chan>> TmpDevice::create(Chan& directory, std::string_view name, uint32_t flags,
                                    uint32_t mode, const Credentials& who) {
  Ref<Node> node = TRY(Node::make());
  node->mode = mode;
  node->uid = who.uid;
  node->gid = who.gid;
  node->modified = node->changed = now();
  Result<Name> copy = Name::copy(name);
  if (!copy && planted(Planted::kCreateError)) static_cast<void>(node.release());
  node->name = TRY(std::move(copy));
  MutexGuard guard(lock_);
  Node& parent = node_of(directory);
  if (parent.gone()) {
    if (planted(Planted::kCreateGone)) static_cast<void>(node.release());
    return Errno::ENOENT;
  }
  TRY(check_writable(parent, who));
  if (find(parent, name)) return Errno::EEXIST;
  node->number = next_number_++;
  Ref<Chan> chan = TRY(channel(*node));
  TRY(set_open(*chan, flags));
  insert(parent, std::move(node));
  return chan;
}

Result<size_t> TmpDevice::read(Chan& chan, char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (offset >= node.size) return size_t{0};
  size = std::min<uint64_t>(size, node.size - offset);
  for (size_t done = 0; done < size;) {
    const uint64_t at = offset + done;
    const size_t slot = at / kPageSize, in_page = at % kPageSize;
    const size_t length = std::min(size - done, kPageSize - in_page);
    const bool has_slot = slot < node.page_slots || planted(Planted::kTmpHole);
    const char* const page = has_slot ? node.pages[slot] : nullptr;
    if (page)
      memcpy(buffer + done, page + in_page, length);
    else
      memset(buffer + done, 0, length);
    done += length;
  }
  return size;
}

Result<size_t> TmpDevice::write(Chan& chan, const char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (size == 0) return size_t{0};
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  const bool append = chan.open_flags & ABI_O_APPEND;
  if (append) offset = node.size;
  if (offset >= kMaxFileSize || size > kMaxFileSize - offset) return Errno::EFBIG;
  TRY(grow(node, (offset + size - 1) / kPageSize + 1));
  size_t done = 0;
  while (done < size) {
    const uint64_t at = offset + done;
    const size_t in_page = at % kPageSize, length = std::min(size - done, kPageSize - in_page);
    char*& page = node.pages[at / kPageSize];
    if (!page) {
      Result<char*> made = make_page();
      if (!made && done == 0) {
        fit(node);
        return made.error();
      }
      if (!made) break;
      page = *made;
      if (length < kPageSize) memset(page, 0, kPageSize);
    }
    memcpy(page + in_page, buffer + done, length);
    done += length;
  }
  node.size = std::max(node.size, offset + done);
  if (append) chan.offset = offset + done;
  node.modified = node.changed = now();
  return done;
}

Result<void> TmpDevice::entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) {
  MutexGuard guard(lock_);
  Reader& reader = reader_of(directory);
  auto& children = reader.node->children;
  auto at = children.begin();
  if (reader.last && reader.removals == reader.node->removals && reader.last->position < position)
    at = List<Node, &Node::link>::Iterator(&reader.last->link);
  while (at != children.end() && (*at).position < position) ++at;
  if (!(at != children.end())) return Errno::ENOENT;
  Node& node = *at;
  reader.last = &node;
  reader.removals = reader.node->removals;
  stat_node(node, entry);
  put_name(node, name);
  position = node.position + 1;
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

Result<void> TmpDevice::check_detachable(Node& node, const Place& from, const Credentials& who) {
  if (&node == root_.object) return Errno::EBUSY;
  if (node.parent != &node_of(from.directory) || node.name.view() != from.name)
    return Errno::ENOENT;
  TRY(check_writable(*node.parent, who));
  return check_sticky(node, who);
}

Result<void> TmpDevice::remove(Chan& chan, const Place& from, const Credentials& who) {
  Ref<Node> removed;  // let go after the lock
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  TRY(check_detachable(node, from, who));
  if (!node.children.empty()) return Errno::ENOTEMPTY;
  removed = detach(node);
  return {};
}

Result<void> TmpDevice::rename(Chan& chan, const Place& from, const Place& to,
                               const Credentials& who) {
  Name name = TRY(Name::copy(to.name));
  Ref<Node> replaced;
  MutexGuard guard(lock_);
  Node &node = node_of(chan), &target = node_of(to.directory);
  TRY(check_detachable(node, from, who));
  if (target.gone()) return Errno::ENOENT;
  TRY(check_writable(target, who));
  for (Node* above = &target; above; above = above->parent)
    if (above == &node) return fail(Errno::EINVAL, "a directory cannot be moved into itself");
  if (Node* const existing = find(target, to.name)) {
    if (existing == &node) return {};
    TRY(check_sticky(*existing, who));
    if (existing->is_directory() && !node.is_directory()) return Errno::EISDIR;
    if (!existing->is_directory() && node.is_directory()) return Errno::ENOTDIR;
    if (!existing->children.empty()) return Errno::ENOTEMPTY;
    replaced = detach(*existing);
  }
  Ref<Node> moving = detach(node);
  node.name = std::move(name);
  if (replaced && planted(Planted::kRenameName)) name.lose();
  insert(target, std::move(moving));
  return {};
}

Result<Ref<Chan>> TmpDevice::parent(Chan& chan, char* name) {
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (&node == root_.object) return Ref<Chan>();
  if (node.gone()) return Errno::ENOENT;
  put_name(node, name);
  return channel(*node.parent);
}

Result<void> TmpDevice::truncate(Chan& chan, uint64_t size, const Credentials& who) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (size > kMaxFileSize) return Errno::EFBIG;
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (chan.is_open ? !(wanted_by_open(chan.open_flags) & 2)
                   : !permitted(node.mode, node.uid, node.gid, who, 2))
    return Errno::EACCES;
  if (size < node.size)
    resize_down(node, size);
  else
    node.size = size;
  node.modified = node.changed = now();
  return {};
}

Result<void> TmpDevice::chmod(Chan& chan, uint32_t mode, const Credentials& who) {
  MutexGuard guard(lock_);
  Node& node = node_of(chan);
  if (who.uid != 0 && who.uid != node.uid) return Errno::EPERM;
  node.mode = (node.mode & ABI_S_IFMT) | (mode & 07777);
  node.changed = now();
  return {};
}

}  // namespace

void tmp_device_init() {
  device.init();
  device_register(&device);
}
