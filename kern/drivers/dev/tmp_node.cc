#include "drivers/dev/tmp_node.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/not_roots.h"
#include "core/planted.h"
#include "core/random.h"
#include "kmalloc.h"
#include "lib/hash.h"
#include "lib/string.h"
#include "pages.h"
#include "proc/address_space.h"
#include "proc/user_account.h"

namespace tmp {

namespace {

constinit ObjectCache<Node> node_cache;
constinit ObjectCache<Entry> entry_cache;
constinit kmem_cache* page_cache = nullptr;
constinit std::atomic<uint64_t> bytes_held = 0;  // bytes of all nodes, names, arrays and pages
constinit uint64_t most_bytes = 0;               // limit of bytes_held
constinit const Device* device = nullptr;
// All entries that are in directories, by a hash of directory and name. A search of a directory
// with very many entries would hold the device's lock for long. `secret` keeps users from choosing
// names of equal hashes. The directories hold their entries; the buckets are no roots, so that an
// entry without a directory is unreachable.
constexpr size_t kBuckets = 4096;
NOT_ROOTS constinit List<Entry, &Entry::in_bucket> buckets[kBuckets];
constinit uint64_t secret = 0;

List<Entry, &Entry::in_bucket>& bucket_of(const Node& directory, std::string_view name) {
  return buckets[hash_of(name, secret ^ directory.number) % kBuckets];
}

// Adds `bytes` to bytes_held. ENOSPC if all files together would exceed their limit. The last
// eighth is root's reserve.
Result<void> charge(size_t bytes) {
  const uint64_t most = works_for_root() ? most_bytes : most_bytes - most_bytes / 8;
  if (bytes_held.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most) return {};
  bytes_held.fetch_sub(bytes, std::memory_order_relaxed);
  return Errno::ENOSPC;
}
void discharge(size_t bytes) {
  bytes_held.fetch_sub(bytes, std::memory_order_relaxed);
}

// Allocates a page for a file, and does not clear the page. ENOMEM, ENOSPC.
Result<char*> make_page() {
  TRY(charge(kPageSize));
  if (auto* const page = static_cast<char*>(kmem_cache_alloc(page_cache, KM_SLEEP))) {
    page_of(page)->mappings.store(kPageOfFile | kPageOwned, std::memory_order_relaxed);
    return page;
  }
  discharge(kPageSize);
  return Errno::ENOMEM;
}

// Frees a page that belongs to no file any more and is not mapped.
void free_page(PhysAddr page) {
  kmem_cache_free(page_cache, direct_map(page));
  discharge(kPageSize);
}

void free_pages_from(Node& node, size_t first) {
  bool mapped = false;
  for (size_t i = first; i < node.page_slots; ++i) {
    if (!node.pages[i]) continue;
    mapped |= page_of(node.pages[i])->mappings.load(std::memory_order_acquire) & kPageMappings;
  }
  node.changes.fetch_add(1, std::memory_order_relaxed);
  if (mapped) AddressSpace::unmap_file({device, node.number, nullptr}, first);
  for (size_t i = first; i < node.page_slots; ++i) {
    if (!node.pages[i]) continue;
    page_leaves_file(direct_map_phys(std::exchange(node.pages[i], nullptr)));
    --node.page_count;
  }
}

// Gives the file an array of `slots` slots for pages (0: no array). The file must have no page
// after these slots. ENOMEM, ENOSPC.
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

size_t slots_for(uint64_t size) {
  return align_up(size, kPageSize) / kPageSize;
}

// Makes room in the array for `slots` pages. ENOMEM, ENOSPC.
Result<void> grow(Node& node, size_t slots) {
  if (slots <= node.page_slots) return {};
  const size_t ahead = std::min(std::max<size_t>(node.page_slots * 2, 4), slots_for(kMaxFileSize));
  return set_slots(node, std::max(slots, ahead));
}

// Frees the array of an empty file. Shrinks any other array of more than four slots if the file
// needs less than half of the slots. Keeps the old array if there is no memory for a smaller one.
void fit(Node& node) {
  const size_t needed = slots_for(node.size);
  if (node.page_slots > std::max<size_t>(needed * 2, 4) || needed == 0)
    static_cast<void>(set_slots(node, needed));
}

}  // namespace

void nodes_init(const Device& of) {
  device = &of;
  random_fill(&secret, sizeof(secret));
  page_set_owner(free_page);
  node_cache.init("tmp_node");
  entry_cache.init("tmp_entry");
  page_cache = kmem_cache_create("tmp_page", kPageSize, kPageSize, KMC_NOPOINTERS, nullptr, nullptr,
                                 nullptr, nullptr);
  if (!page_cache) panic_no_cache("tmp_page");
  most_bytes = memory_totals().total / 2;
}

uint64_t bytes_allowed() {
  return most_bytes;
}
uint64_t bytes_used() {
  return bytes_held.load(std::memory_order_relaxed);
}

abi_timespec now() {
  const uint64_t since_boot = monotonic_now().value;
  return {static_cast<int64_t>(boot_wall_seconds() + since_boot / 1'000'000'000),
          static_cast<int64_t>(since_boot % 1'000'000'000)};
}

Result<Name> Name::copy(std::string_view name) {
  TRY(charge(name.size()));
  char* const text = static_cast<char*>(kmalloc_bytes(name.size(), KM_SLEEP));
  if (!text) {
    discharge(name.size());
    return Errno::ENOMEM;
  }
  memcpy(text, name.data(), name.size());
  return Name({text, name.size()});
}
Name::~Name() {
  discharge(text_.size());
  kfree(const_cast<char*>(text_.data()));
}

Result<Entry*> Entry::make(std::string_view name) {
  Name copy = TRY(Name::copy(name));
  TRY(charge(sizeof(Entry)));
  Result<Entry*> entry = entry_cache.make(KM_SLEEP);
  if (entry)
    (*entry)->name = std::move(copy);
  else
    discharge(sizeof(Entry));
  return entry;
}
void Entry::destroy(Entry* entry) {
  if (!entry) return;
  entry_cache.destroy(entry);
  discharge(sizeof(Entry));
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

Entry* find(Node& directory, std::string_view name) {
  for (Entry& entry : bucket_of(directory, name))
    if (entry.directory == &directory && name == entry.name.view()) return &entry;
  return nullptr;
}

void insert(Node& directory, Entry& entry, Ref<Node> node) {
  entry.directory = &directory;
  entry.position = directory.next_position++;
  directory.children.push_back(entry);
  bucket_of(directory, entry.name.view()).push_back(entry);
  node->entries.push_back(entry);
  ++node->links;
  directory.subdirectories += node->is_directory();
  directory.modified = directory.changed = node->changed = now();
  entry.node = std::move(node);
}

Ref<Node> detach(Entry& entry) {
  Node& directory = *entry.directory;
  Node& node = *entry.node;
  directory.modified = directory.changed = node.changed = now();
  ++directory.removals;
  entry.in_directory.unlink();
  entry.of_node.unlink();
  entry.in_bucket.unlink();
  entry.directory = nullptr;
  --node.links;
  directory.subdirectories -= node.is_directory();
  return std::move(entry.node);
}

void read_pages(const Node& node, char* buffer, size_t size, uint64_t offset) {
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
}

// Clears the bytes from `end` to the end of its page, because programs that map the page may have
// written there.
static void clear_tail(Node& node, uint64_t end) {
  const size_t last = end / kPageSize, rest = end % kPageSize;
  if (rest && last < node.page_slots && node.pages[last])
    memset(node.pages[last] + rest, 0, kPageSize - rest);
}

Result<char*> page_at(Node& node, size_t index) {
  TRY(grow(node, index + 1));
  char*& page = node.pages[index];
  if (page) return page;
  char* const made = TRY(make_page());
  memset(made, 0, kPageSize);
  ++node.page_count;
  return page = made;
}

Result<size_t> write_pages(Node& node, const char* buffer, size_t size, uint64_t offset) {
  TRY(grow(node, (offset + size - 1) / kPageSize + 1));
  if (offset > node.size) clear_tail(node, node.size);
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
      ++node.page_count;
      memset(page, 0, in_page);
      memset(page + in_page + length, 0, kPageSize - in_page - length);
    }
    memcpy(page + in_page, buffer + done, length);
    done += length;
  }
  node.size = std::max(node.size, offset + done);
  return done;
}

void await_stores(Node& node) {
  if (!node.mapped_to_write) return;
  // A fault that has already looked a page up must not map it as it was.
  node.changes.fetch_add(1, std::memory_order_relaxed);
  AddressSpace::unmap_file({device, node.number, nullptr}, 0);
}

void resize(Node& node, uint64_t size) {
  clear_tail(node, std::min(size, node.size));
  if (size >= node.size) {
    node.size = size;
    return;
  }
  node.size = size;
  free_pages_from(node, slots_for(size));
  fit(node);
}

}  // namespace tmp
