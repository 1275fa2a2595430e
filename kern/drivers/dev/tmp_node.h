// The files of #tmp: nodes, their names in directories, and their contents. The theory is in
// tmp.cc. The device's lock guards everything, except for new objects that no other task can find
// yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "abi/syscall.h"
#include "core/ref.h"
#include "lib/list.h"
#include "lib/result.h"
#include "ns/device.h"

namespace tmp {

inline constexpr uint64_t kMaxFileSize = uint64_t{4} << 30;

// Bytes of a name, or of a link's target.
class Name {
 public:
  Name() = default;
  static Result<Name> copy(std::string_view name);  // ENOMEM, ENOSPC
  Name(Name&& other) noexcept : text_(std::exchange(other.text_, {})) {}
  Name& operator=(Name&& other) noexcept {
    std::swap(text_, other.text_);
    return *this;
  }
  ~Name();
  std::string_view view() const { return text_; }
  void lose() { text_ = {}; }  // leaks the text, for planted bugs

 private:
  explicit Name(std::string_view text) : text_(text) {}
  std::string_view text_;  // kmalloc'ed
};

struct Node;

// A name of a node in a directory. The directory outlives its entries.
struct Entry {
  static Result<Entry*> make(std::string_view name);  // ENOMEM, ENOSPC
  static void destroy(Entry* entry);

  Name name;
  Ref<Node> node;  // empty while the entry is in no directory
  Node* directory = nullptr;
  uint64_t position = 0;  // for Device::entry; later entries of the directory have higher positions
  ListNode in_directory, of_node, in_bucket;
};

struct Node : RefCounted<Node> {
  static constexpr RefKind kRefKind = RefKind::kTmpNode;
  static Result<Ref<Node>> make();  // ENOMEM, ENOSPC
  static void destroy(Node* node);

  uint64_t number = 0;
  uint32_t mode = 0, uid = 0, gid = 0;
  abi_timespec accessed{}, modified{}, changed{};

  // Names of the node. The root and removed nodes have none, a directory has one.
  List<Entry, &Entry::of_node> entries;
  uint32_t links = 0;  // number of names

  // Fields of a directory.
  uint32_t subdirectories = 0;  // number of children that are directories
  List<Entry, &Entry::in_directory> children;
  uint64_t next_position = 1;
  uint64_t removals = 0;  // entries removed so far

  // Field of a symbolic link.
  Name target;

  // Fields of a file. Address spaces map the file's pages directly, so Page::mappings of each page
  // has kPageOfFile and kPageOwned.
  uint64_t size = 0;
  std::atomic<uint64_t> changes{0};  // for FilePage::changes: how often pages have been removed
  char** pages = nullptr;            // kmalloc'ed array; a slot for a hole has nullptr
  size_t page_slots = 0;
  size_t page_count = 0;         // number of pages that are not holes
  bool mapped_to_write = false;  // some shared map was able to write to the file

  bool is_directory() const { return (mode & ABI_S_IFMT) == ABI_S_IFDIR; }
  bool is_symlink() const { return (mode & ABI_S_IFMT) == ABI_S_IFLNK; }
  bool is_fifo() const { return (mode & ABI_S_IFMT) == ABI_S_IFIFO; }
  bool gone() const { return links == 0 && number != 0; }
  // Returns the parent of a directory; nullptr for the root and for a removed directory.
  Node* parent() { return entries.empty() ? nullptr : entries.front()->directory; }
};

// Makes the caches and sets the limit of the files' memory. `device` is #tmp. Once, at boot.
void nodes_init(const Device& device);
// bytes_allowed(): the limit of the bytes of all files together. bytes_used(): the bytes that the
// files use.
uint64_t bytes_allowed();
uint64_t bytes_used();

// The time of day.
abi_timespec now();

Entry* find(Node& directory, std::string_view name);
// Puts `entry` into the directory, as a name of `node`.
void insert(Node& directory, Entry& entry, Ref<Node> node);
// Takes an entry out of its directory. The caller then owns the entry, and the returned reference
// to the node.
Ref<Node> detach(Entry& entry);

// The contents of a file. read_pages copies `size` bytes from `offset` on; the range must lie
// within the file.
void read_pages(const Node& node, char* buffer, size_t size, uint64_t offset);
// Writes after the file's end enlarge the file. Returns the number of bytes written; fewer than
// `size` if memory runs out during the write. ENOMEM or ENOSPC if nothing could be written.
Result<size_t> write_pages(Node& node, const char* buffer, size_t size, uint64_t offset);
void resize(Node& node, uint64_t size);
// From now on, the next store through a shared map of the file calls Device::stored.
void await_stores(Node& node);
// Returns page number `index`, which must lie within the file. Replaces a hole by a page of zeros.
// ENOMEM, ENOSPC.
Result<char*> page_at(Node& node, size_t index);

}  // namespace tmp
