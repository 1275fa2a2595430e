// The files of #tmp: nodes, their names in directories, and their contents. The theory is in
// tmp.cc. The device's lock guards everything, except for new objects that nobody else knows yet.
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
  void lose() { text_ = {}; }  // for planted bugs

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
  Ref<Node> node;  // empty in no directory
  Node* directory = nullptr;
  uint64_t position = 0;  // ascending in the directory, for reading it
  ListNode in_directory, of_node;
};

struct Node : RefCounted<Node> {
  static constexpr RefKind kRefKind = RefKind::kTmpNode;
  static Result<Ref<Node>> make();  // ENOMEM, ENOSPC
  static void destroy(Node* node);

  uint64_t number = 0;
  uint32_t mode = 0, uid = 0, gid = 0;
  abi_timespec accessed{}, modified{}, changed{};

  // Its names. The root and removed nodes have none, a directory has one.
  List<Entry, &Entry::of_node> entries;
  uint32_t links = 0;  // number of names

  // For a directory.
  uint32_t subdirectories = 0;  // number of children that are directories
  List<Entry, &Entry::in_directory> children;
  uint64_t next_position = 1;
  uint64_t removals = 0;  // entries removed so far

  // For a symbolic link.
  Name target;

  // For a file. Its pages are mapped themselves: Page::mappings has kPageOfFile and kPageOwned.
  uint64_t size = 0;
  std::atomic<uint64_t> changes{0};  // FilePage's: how often pages have been removed
  char** pages = nullptr;            // kmalloc'ed
  size_t page_slots = 0;
  size_t page_count = 0;  // number of allocated pages

  bool is_directory() const { return (mode & ABI_S_IFMT) == ABI_S_IFDIR; }
  bool is_symlink() const { return (mode & ABI_S_IFMT) == ABI_S_IFLNK; }
  bool is_fifo() const { return (mode & ABI_S_IFMT) == ABI_S_IFIFO; }
  bool gone() const { return links == 0 && number != 0; }
  // Returns the directory that a directory is in; nullptr for the root and removed ones.
  Node* parent() { return entries.empty() ? nullptr : entries.front()->directory; }
};

// Makes the caches and sets the limit of memory; `device` owns the nodes. Once, at boot.
void nodes_init(const Device& device);
// Bytes that all files together may have, and that they have.
uint64_t bytes_allowed();
uint64_t bytes_used();

// The time of day.
abi_timespec now();

Entry* find(Node& directory, std::string_view name);
// Puts an entry for `node` into the directory.
void insert(Node& directory, Entry& entry, Ref<Node> node);
// Takes an entry out of its directory. The caller gets the entry, and its reference to the node.
Ref<Node> detach(Entry& entry);

// Contents of a file. read: `size` bytes from `offset`, which must exist.
void read_pages(const Node& node, char* buffer, size_t size, uint64_t offset);
// Returns the number of bytes written, less than `size` if memory ran out; the file's size grows
// with them. ENOMEM, ENOSPC.
Result<size_t> write_pages(Node& node, const char* buffer, size_t size, uint64_t offset);
void resize(Node& node, uint64_t size);
// Returns the page with number `index`, which is within the file; fills a hole. ENOMEM, ENOSPC.
Result<char*> page_at(Node& node, size_t index);

}  // namespace tmp
