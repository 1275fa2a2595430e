// #root: the initial archive, read-only.
//
// The archive is one or more cpio archives in the "newc" format (cpio(5)) with zeros between them.
// The boot loader has put the archive into memory. The archive stays there, and files are read in
// place. At boot one pass counts the names, and a second pass makes the index, a tree of nodes in
// one array. The second pass also adds directories that have no entry. A later entry replaces an
// earlier one of the same name. Hard links are entries of one archive with the same inode number.
// Only the last of these entries has the file's bytes. All links of a file get the qid of the node
// with the bytes, so that programs see one file. A hash table finds the nodes by directory and
// name. The index does not change after boot, so there is no lock.

#include <algorithm>
#include <bit>

#include "core/boot.h"
#include "core/errstr.h"
#include "core/log.h"
#include "drivers/dev/devices.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/hash.h"
#include "lib/string.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "ns/page_cache.h"

namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct Node {
  std::string_view name;  // the last component of the path; points into the archive
  uint32_t parent = 0, first_child = kNone, last_child = kNone, sibling = kNone;
  uint32_t next_in_bucket = kNone;
  uint32_t content = 0;  // index of the node with the bytes; may be another node for a hard link
  uint32_t mode = 0, uid = 0, gid = 0, links = 1, mtime = 0;
  uint32_t archive = 0, inode = 0;  // number of the cpio archive, and inode number in that archive
  const char* data = nullptr;
  uint32_t size = 0;

  bool is_directory() const { return (mode & ABI_S_IFMT) == ABI_S_IFDIR; }
};

// One entry of an archive.
struct Entry {
  std::string_view name;
  const char* data;
  uint32_t inode, mode, uid, gid, links, mtime, size;
};

// Reads archives from front to back.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> all)
      : all_(reinterpret_cast<const char*>(all.data()), all.size()) {}

  // Gets the next entry. False at the end. If the archive is damaged here, logs this and returns
  // false.
  bool next(Entry& entry) {
    for (;;) {
      while (at_ + kHeader <= all_.size() &&
             all_.compare(at_, 4, std::string_view("\0\0\0\0", 4)) == 0)
        at_ += 4;
      if (at_ + kHeader > all_.size()) return false;
      if (!all_.substr(at_).starts_with("070701") && !all_.substr(at_).starts_with("070702"))
        return damaged("no header");
      const uint32_t name_size = field(11);
      const size_t name_at = at_ + kHeader, data_at = align_up(name_at + name_size, 4);
      entry = {.name = {},
               .data = all_.data() + data_at,
               .inode = field(0),
               .mode = field(1),
               .uid = field(2),
               .gid = field(3),
               .links = field(4),
               .mtime = field(5),
               .size = field(6)};
      if (name_size == 0 || data_at > all_.size() || entry.size > all_.size() - data_at)
        return damaged("cut short");
      entry.name = all_.substr(name_at, name_size - 1);
      at_ = align_up(data_at + entry.size, 4);
      if (entry.name != "TRAILER!!!") return true;
      ++archive_;
    }
  }
  uint32_t archive() const { return archive_; }

 private:
  static constexpr size_t kMagic = 6, kHeader = 110;

  // Returns field number `index` of the header: eight hexadecimal digits.
  uint32_t field(size_t index) const {
    uint32_t value = 0;
    for (const char digit : all_.substr(at_ + kMagic + 8 * index, 8))
      value = value << 4 |
              static_cast<uint32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    return value;
  }
  bool damaged(const char* why) const {
    klog("#root: initial archive damaged at byte %zu: %s; the rest is left out", at_, why);
    return false;
  }

  const std::string_view all_;
  size_t at_ = 0;
  uint32_t archive_ = 0;
};

// Removes the first name from `path` and returns the name. Skips "." and leading slashes. Returns
// "" at the end of the path.
std::string_view next_name(std::string_view& path) {
  for (;;) {
    while (path.starts_with('/')) path.remove_prefix(1);
    const std::string_view name = path.substr(0, std::min(path.find('/'), path.size()));
    path.remove_prefix(name.size());
    if (name != ".") return name;
  }
}

class RootDevice final : public Device, public PageSource {
 public:
  constexpr RootDevice() : Device("root") {}
  void init();

  Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) override;
  Result<void> stat(Chan& chan, abi_stat& stat) override;
  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override;
  Result<Ref<Chan>> create(Chan&, std::string_view, uint32_t, uint32_t,
                           const Credentials&) override {
    return read_only();
  }
  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) override;
  Result<void> map(Chan& chan, bool writes) override;
  Result<FilePage> page(Chan& chan, uint64_t index) override {
    return page_cache_page(chan, *this, index);
  }
  Result<size_t> read_source(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    return read(chan, buffer, size, offset);
  }
  Result<size_t> write(Chan&, const char*, size_t, uint64_t) override { return read_only(); }
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override;
  Result<void> remove(Chan&, const DirectoryEntry&, const Credentials&) override {
    return read_only();
  }
  Result<void> rename(Chan&, const DirectoryEntry&, const DirectoryEntry&,
                      const Credentials&) override {
    return read_only();
  }
  Result<void> truncate(Chan&, uint64_t, const Credentials&) override { return read_only(); }
  Result<void> symlink(Chan&, std::string_view, std::string_view, const Credentials&) override {
    return read_only();
  }
  Result<size_t> readlink(Chan& chan, char* target) override;
  Result<void> link(Chan&, const DirectoryEntry&, const Credentials&) override {
    return read_only();
  }
  Result<void> set_attributes(Chan&, const AttributeChange&, const Credentials&) override {
    return read_only();
  }
  Result<void> statfs(Chan& chan, abi_statfs& result) override;
  bool one_offset() const override { return true; }

 private:
  static Errno read_only() { return fail(Errno::EROFS, "#root is the initial archive: read-only"); }
  const Node& node_of(const Chan& chan) const { return nodes_[chan.qid.path]; }
  uint32_t& bucket_of(uint32_t directory, std::string_view name) const {
    return buckets_[hash_of(name, directory) & (bucket_count_ - 1)];
  }
  uint32_t find(uint32_t directory, std::string_view name) const;
  uint32_t add(uint32_t directory, std::string_view name);
  void enter(const Entry& entry, uint32_t archive);
  void join_links();
  void count_subdirectories();
  void stat_node(const Node& node, abi_stat& stat) const;

  // Written at boot only.
  Node* nodes_ = nullptr;
  uint32_t count_ = 0, capacity_ = 0;
  uint32_t* buckets_ = nullptr;  // of each bucket, the first node
  uint32_t bucket_count_ = 0;    // a power of two
};

constinit RootDevice device;

uint32_t RootDevice::find(uint32_t directory, std::string_view name) const {
  uint32_t i = bucket_of(directory, name);
  while (i != kNone && (nodes_[i].parent != directory || nodes_[i].name != name))
    i = nodes_[i].next_in_bucket;
  return i;
}

uint32_t RootDevice::add(uint32_t directory, std::string_view name) {
  ASSERT(count_ < capacity_);
  const uint32_t index = count_++;
  Node& node = *new (&nodes_[index]) Node;
  node.name = name;
  node.parent = directory;
  node.content = index;
  node.mode = ABI_S_IFDIR | 0755;
  Node& parent = nodes_[directory];
  if (index == directory) return index;  // the root has no parent
  (parent.first_child == kNone ? parent.first_child : nodes_[parent.last_child].sibling) = index;
  parent.last_child = index;
  node.next_in_bucket = std::exchange(bucket_of(directory, name), index);
  return index;
}

void RootDevice::enter(const Entry& entry, uint32_t archive) {
  const uint32_t type = entry.mode & ABI_S_IFMT;
  if (type != ABI_S_IFDIR && type != ABI_S_IFREG && type != ABI_S_IFLNK) {
    klog("#root: %.*s: neither file, link nor directory, left out",
         static_cast<int>(entry.name.size()), entry.name.data());
    return;
  }
  if (type == ABI_S_IFLNK && entry.size >= kMaxPath) {
    klog("#root: %.*s: a link that is too long, left out", static_cast<int>(entry.name.size()),
         entry.name.data());
    return;
  }
  uint32_t at = 0;
  std::string_view path = entry.name;
  for (std::string_view name = next_name(path); !name.empty(); name = next_name(path)) {
    if (!nodes_[at].is_directory() || name.size() > kMaxName) {
      klog("#root: %.*s: bad name, left out", static_cast<int>(entry.name.size()),
           entry.name.data());
      return;
    }
    const uint32_t next = find(at, name);
    at = next != kNone ? next : add(at, name);
  }
  Node& node = nodes_[at];
  if (type != ABI_S_IFDIR && node.first_child != kNone) {
    klog("#root: %.*s: a file in place of a directory, left out",
         static_cast<int>(entry.name.size()), entry.name.data());
    return;
  }
  node.content = at;
  node.mode = entry.mode & (ABI_S_IFMT | 07777);
  node.uid = entry.uid;
  node.gid = entry.gid;
  node.links = entry.links;
  node.mtime = entry.mtime;
  node.archive = archive;
  node.inode = entry.inode;
  node.data = entry.data;
  node.size = type != ABI_S_IFDIR ? entry.size : 0;
}

// Gives hard links without bytes the content of the link that has the bytes.
void RootDevice::join_links() {
  // The node whose content the last link got. This node is tried first for the next link, because
  // most links of one file are adjacent.
  uint32_t last = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    Node& node = nodes_[i];
    if (node.is_directory() || node.links < 2 || node.size > 0) continue;
    const auto has_content = [&](uint32_t candidate) {
      const Node& other = nodes_[candidate];
      return other.size > 0 && other.links > 1 && other.archive == node.archive &&
             other.inode == node.inode;
    };
    if (!has_content(last)) {
      for (last = 0; last < count_ && !has_content(last);) ++last;
      if (last == count_) {
        last = 0;
        continue;
      }
    }
    node.content = last;
  }
}

// Computes the link counts of directories. The counts in the archive are not used, because they
// describe directories of the host.
void RootDevice::count_subdirectories() {
  for (uint32_t i = 0; i < count_; ++i)
    if (nodes_[i].is_directory()) nodes_[i].links = 2;
  for (uint32_t i = 1; i < count_; ++i)
    if (nodes_[i].is_directory()) ++nodes_[nodes_[i].parent].links;
}

void RootDevice::init() {
  const std::span<const std::byte> archive = boot_info().archive;
  Entry entry;
  capacity_ = 1;
  for (Reader reader(archive); reader.next(entry);)
    capacity_ += 1 + static_cast<uint32_t>(std::count(entry.name.begin(), entry.name.end(), '/'));
  nodes_ = static_cast<Node*>(kmalloc(capacity_ * sizeof(Node), KM_SLEEP));
  bucket_count_ = std::bit_ceil(capacity_);
  buckets_ = static_cast<uint32_t*>(kmalloc(bucket_count_ * sizeof(uint32_t), KM_SLEEP));
  if (!nodes_ || !buckets_) panic("#root: no memory for an index of %u names", capacity_);
  std::fill_n(buckets_, bucket_count_, kNone);
  add(0, "");
  Reader reader(archive);
  while (reader.next(entry)) enter(entry, reader.archive());
  join_links();
  count_subdirectories();
}

Result<Ref<Chan>> RootDevice::walk(Chan& chan, std::string_view name, const Credentials&) {
  if (!chan.qid.directory) return Errno::ENOTDIR;
  const uint32_t found = find(static_cast<uint32_t>(chan.qid.path), name);
  if (found == kNone) return Errno::ENOENT;
  const uint32_t content = nodes_[found].content;
  const uint32_t type = nodes_[content].mode & ABI_S_IFMT;
  return Chan::create(this, {.path = content,
                             .version = 0,
                             .directory = type == ABI_S_IFDIR,
                             .symlink = type == ABI_S_IFLNK});
}

void RootDevice::stat_node(const Node& node, abi_stat& stat) const {
  const Node& content = nodes_[node.content];
  fill_stat(stat, node.content, content.mode, content.size);
  stat.nlink = content.links;
  stat.uid = content.uid;
  stat.gid = content.gid;
  stat.atime = stat.mtime = stat.ctime = {static_cast<int64_t>(content.mtime), 0};
}

Result<size_t> RootDevice::readlink(Chan& chan, char* target) {
  const Node& node = node_of(chan);
  if (!chan.qid.symlink) return Errno::EINVAL;
  memcpy(target, node.data, node.size);
  return node.size;
}

Result<void> RootDevice::statfs(Chan& chan, abi_statfs& result) {
  TRY(Device::statfs(chan, result));
  result.blocks = align_up(boot_info().archive.size(), kPageSize) / kPageSize;
  result.files = count_;
  result.read_only = 1;
  return {};
}

Result<void> RootDevice::stat(Chan& chan, abi_stat& stat) {
  stat_node(node_of(chan), stat);
  return {};
}

Result<Ref<Chan>> RootDevice::open(Ref<Chan> chan, uint32_t flags, const Credentials& who) {
  const Node& node = node_of(*chan);
  const uint32_t want = wanted_by_open(flags);
  if (chan->qid.directory && (want & 2)) return Errno::EISDIR;
  if (want & 2) return read_only();
  if (!permitted(node.mode, node.uid, node.gid, who, want)) return Errno::EACCES;
  chan->is_open = true;
  chan->open_flags = flags;
  return chan;
}

Result<size_t> RootDevice::read(Chan& chan, char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  const Node& node = node_of(chan);
  return read_text({node.data, node.size}, buffer, size, offset);
}

Result<void> RootDevice::map(Chan& chan, bool writes) {
  if (chan.qid.directory) return Errno::ENODEV;
  return page_cache_map(chan, *this, writes);
}

Result<void> RootDevice::entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) {
  // A position is a node's index. The next entry is the first one whose index is not below the
  // position, because the entries of a directory are in ascending order of index.
  uint32_t i = node_of(directory).first_child;
  if (position > i && position < count_ && nodes_[position].parent == directory.qid.path)
    i = static_cast<uint32_t>(position);
  while (i != kNone && i < position) i = nodes_[i].sibling;
  if (i == kNone) return Errno::ENOENT;
  stat_node(nodes_[i], entry);
  const std::string_view text = nodes_[i].name;
  format(name, kMaxName + 1, "%.*s", static_cast<int>(text.size()), text.data());
  position = i + 1;
  return {};
}

}  // namespace

void root_device_init() {
  device.init();
  device_register(&device);
}
