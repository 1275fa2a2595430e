// Describes what lies at an address. The debugger command kmem-whatis executes this code on a copy
// of the memory of a guest or of a core (tools/stele/debugger/emulator.py).
//
// The address may be any number, so it is never dereferenced. The owner of the memory is found from
// the linker's symbols, page descriptors, slabs and boundary tags; providers describe the stacks of
// tasks (ReachProvider::describe). The page's descriptor names the slab of an object, except in the
// quantum caches of arenas. Other memory of the direct map belongs to a segment of an arena, or to
// an object of one of the arena's quantum caches. An arena may import its memory from another
// arena; the address then lies in a segment of each of the two. The importing arena knows the owner
// more exactly. So arenas are searched in the order of their distance from base_arena, counted in
// imports, the largest first.
#include "reach/describe_impl.h"

#include <algorithm>

#include "arch/x86_64/paging.h"
#include "arch/x86_64/table_walk.h"
#include "arena_walk.h"
#include "core/symbols.h"
#include "pages.h"
#include "reach/roots_impl.h"
#include "slab_walk.h"

extern "C" const char image_start[], image_end[], text_start[], text_end[], rodata_start[],
    rodata_end[], data_start[], data_end[], not_roots_start[];

namespace reach {
namespace {

constexpr size_t kWords = 256;

bool lies_in(uint64_t address, const char* start, const char* end) {
  return address >= reinterpret_cast<uint64_t>(start) && address < reinterpret_cast<uint64_t>(end);
}
uint64_t value(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

// Prints "0x10 bytes into ", or nothing if `address` is `start`.
void print_into(Writer& to, uint64_t address, uint64_t start) {
  if (address > start) to.print("0x%lx bytes into ", address - start);
}

// Prints a provider's description. False if no provider knows the address.
bool print_provided(Writer& to, uint64_t address) {
  char words[kWords];
  if (describe_provided(address, words, sizeof(words)) == 0) return false;
  to.print("%s", words);
  return true;
}

bool print_cpu_stack(Writer& to, uint64_t address) {
  const CpuStack stack = find_cpu_stack(address);
  if (!stack.name) return false;
  if (stack.name[0] == '\0') {
    to.print("the stack that CPU %u began on, its idle task's", stack.cpu);
  } else {
    to.print("the stack of CPU %u for %s", stack.cpu, stack.name);
  }
  to.print(", 0x%lx bytes below its top", stack.below_top);
  return true;
}

// ---- The kernel's image.

const char* section_of(uint64_t address) {
  if (lies_in(address, rodata_start, rodata_end)) return ".rodata";
  return lies_in(address, data_start, not_roots_start) ? ".data" : ".bss";
}

void print_in_image(Writer& to, uint64_t address) {
  if (lies_in(address, text_start, text_end)) {
    const Symbol symbol = symbol_lookup(address);
    to.print("code: ");
    if (symbol.name) to.print("%s+0x%lx", symbol.name, symbol.offset);
    return;
  }
  if (print_cpu_stack(to, address)) return;
  if (!lies_in(address, rodata_start, rodata_end) && !lies_in(address, data_start, data_end)) {
    to.print("in the kernel's image");
    return;
  }
  to.print("data: ");
  if (const Symbol variable = variable_lookup(address); variable.name) {
    to.print("%s", variable.name);
    if (variable.offset > 0) to.print("+0x%lx", variable.offset);
    to.print(" ");
  }
  to.print("in %s", section_of(address));
  for (kmem_cache* cache = kmem_walk_next(nullptr); cache; cache = kmem_walk_next(cache)) {
    if (value(cache) == address) to.print(", the cache %s", kmem_cache_name(cache));
  }
}

// ---- Slabs.

void print_slab(Writer& to, const kmem_located& slab) {
  to.print("%s 0x%lx of %s with %u of %u objects out",
           slab.checked ? "the checked slab" : "the slab", value(slab.pages),
           kmem_cache_name(slab.cache), slab.out, slab.count);
}

// True if a caller holds the object.
bool is_live(const kmem_located& object) {
  return object.state == KMEM_LOCATED_LIVE || object.state == KMEM_LOCATED_LIVE_DAMAGED;
}

void print_state(Writer& to, const kmem_located& object) {
  switch (object.state) {
    case KMEM_LOCATED_LIVE:
      return to.print("live");
    case KMEM_LOCATED_IN_SLAB:
      return to.print("free, in its slab");
    case KMEM_LOCATED_IN_LOADED:
      return to.print("free, in the loaded magazine of CPU %u", object.cpu);
    case KMEM_LOCATED_IN_PREVIOUS:
      return to.print("free, in the previous magazine of CPU %u", object.cpu);
    case KMEM_LOCATED_IN_DEPOT:
      return to.print("free, in a full magazine of the depot");
    case KMEM_LOCATED_TAKEN:
      return to.print("being allocated");
    case KMEM_LOCATED_LIVE_DAMAGED:
      return to.print("live, and reported as damaged");
    case KMEM_LOCATED_FREEING:
      return to.print("being freed");
    case KMEM_LOCATED_FREEING_DAMAGED:
      return to.print("being freed, and reported as damaged");
    case KMEM_LOCATED_QUARANTINED:
      return to.print("in quarantine");
  }
}

// Prints the meaning of an object that describes other memory (a slab structure, a bufctl, a cache)
// or that a provider knows.
void print_meaning(Writer& to, const kmem_located& object) {
  kmem_located slab;
  const void* structure;
  char words[kWords];
  if (kmem_walk_kind_of(object.cache) == KMEM_WALK_SLABS) {
    if (!kmem_locate_structure(object.cache, object.object, &slab)) return;
    to.print("  it is the slab structure of ");
    print_slab(to, slab);
    to.print("\n");
  } else if (kmem_locate_bufctl(object.cache, object.object, &structure)) {
    to.print("  it is a bufctl of the slab structure 0x%lx\n", value(structure));
  } else if (meaning_provided(object.cache, object.object, words, sizeof(words)) > 0) {
    to.print("  it is %s\n", words);
  }
  for (kmem_cache* cache = kmem_walk_next(nullptr); cache; cache = kmem_walk_next(cache)) {
    if (cache == object.object) to.print("  it is the cache %s\n", kmem_cache_name(cache));
  }
}

void print_place(Writer& to, const char* what, const slab_os_place& place, uint64_t bytes) {
  if (place.time == 0 && place.depth == 0) return;
  to.print("  %s by ", what);
  if (place.interrupt || place.pid == 0) {
    to.print("%s", place.interrupt ? "irq" : "task");
  } else {
    to.print("pid %u", place.pid);
  }
  to.print(" %.*s %lu ms after boot on CPU %u", SLAB_OS_PLACE_NAME - 1, place.name, place.time,
           unsigned{place.cpu});
  if (bytes > 0) to.print(", %lu bytes", bytes);
  to.print("\n");
  for (unsigned i = 0; i < std::min<unsigned>(place.depth, SLAB_OS_PLACE_FRAMES); i++)
    describe_frame(to, kKernelImageBase + place.frames[i]);
}

void print_in_slab(Writer& to, const kmem_located& at, uint64_t address) {
  const char* const name = kmem_cache_name(at.cache);
  if (at.part == KMEM_LOCATED_STRUCTURE) {
    print_into(to, address, value(at.structure));
    to.print("the slab structure 0x%lx of ", value(at.structure));
    print_slab(to, at);
    to.print("\n");
    return;
  }
  if (at.part != KMEM_LOCATED_OBJECT) {
    to.print("in ");
    print_slab(to, at);
    to.print(", %s\n", at.part == KMEM_LOCATED_BEFORE ? "before the first object"
                       : at.checked                   ? "behind an object"
                                                      : "behind the last object");
    return;
  }
  print_into(to, address, value(at.object));
  to.print("the object 0x%lx of %s, which has %lu bytes: ", value(at.object), name,
           kmem_cache_object_size(at.cache));
  print_state(to, at);
  to.print("\n  in ");
  print_slab(to, at);
  to.print("\n");
  if (is_live(at)) print_meaning(to, at);
  if (at.checked) {
    kmem_located_audit audit;
    kmem_locate_audit(&at, &audit);
    print_place(to, "allocated", audit.allocated, audit.requested);
    print_place(to, "freed", audit.freed, 0);
  } else if (is_live(at)) {
    describe_origin(to, at.cache, value(at.object));
  }
}

// ---- Arenas.

void print_user_page(Writer& to, const Page& page) {
  const uint32_t all = page.mappings.load(std::memory_order_relaxed);
  const uint32_t mappings = all & kPageMappings;
  if (all == 0) return;
  to.print(": a page of %s, which %u address space%s", all & kPageOfFile ? "a file" : "programs",
           mappings, mappings == 1 ? " maps" : "s map");
}

// Prints the size of a large kmalloc that begins at `start`; false if none begins there.
bool print_large_kmalloc(Writer& to, uint64_t start) {
  const Page* const page = page_of(reinterpret_cast<const void*>(start));
  if (!page || page->large_pages == 0) return false;
  to.print(": a kmalloc of %u pages", page->large_pages & ~kPagesOfBytes);
  return true;
}

void print_in_quantum_cache(Writer& to, struct arena* arena, const kmem_located& at,
                            uint64_t address, const Page& page) {
  const char* const name = kmem_cache_name(at.cache);
  if (at.part != KMEM_LOCATED_OBJECT) {
    to.print("in a slab of %s, a quantum cache of the arena %s, behind its objects\n", name,
             arena_name(arena));
    return;
  }
  print_into(to, address, value(at.object));
  to.print("the allocation 0x%lx from the arena %s, %lu bytes by way of %s: ", value(at.object),
           arena_name(arena), at.stride, name);
  print_state(to, at);
  if (is_live(at)) {
    print_user_page(to, page);
    print_large_kmalloc(to, value(at.object));
  }
  to.print("\n");
  if (is_live(at)) describe_origin(to, arena, value(at.object));
}

// Prints that the segment holds boundary tags, if it does. Otherwise prints the arenas that forward
// their requests to `arena` (arena_forward), if there are any: one of them may have allocated the
// segment.
void print_metadata(Writer& to, const struct arena* arena, const ArenaSegment& segment) {
  if (arena_walk_holds_tags(segment)) {
    to.print("  it holds boundary tags\n");
    return;
  }
  bool any = false;
  for (struct arena* other = arena_walk_next(nullptr); other; other = arena_walk_next(other)) {
    if (arena_parent(other) != arena || !arena_walk_forwards(other)) continue;
    to.print("%s%s", any ? ", " : "  perhaps allocated through ", arena_name(other));
    any = true;
  }
  if (any) to.print(", which does not track allocations\n");
}

// Describes the address as part of a segment of the arena. False if no segment contains it.
bool print_in_arena(Writer& to, struct arena* arena, uint64_t address, const Page& page) {
  const ArenaSegment segment = arena_locate(arena, address);
  if (segment.size == 0) return false;
  if (segment.free) {
    to.print("free memory of the arena %s: 0x%lx with %lu bytes\n", arena_name(arena),
             segment.start, segment.size);
    return true;
  }
  for (unsigned i = 0;; i++) {
    kmem_cache* const cache = arena_walk_quantum_cache(arena, i);
    kmem_located located;
    if (!cache) break;
    if (!kmem_locate_of(cache, reinterpret_cast<const void*>(address), &located)) continue;
    print_in_quantum_cache(to, arena, located, address, page);
    return true;
  }
  print_into(to, address, segment.start);
  to.print("an allocation from the arena %s, 0x%lx with %lu bytes", arena_name(arena),
           segment.start, segment.size);
  print_user_page(to, page);
  const bool is_kmalloc = print_large_kmalloc(to, segment.start);
  to.print("\n");
  if (!is_kmalloc) print_metadata(to, arena, segment);
  describe_origin(to, arena, segment.start);
  return true;
}

// Returns the number of arenas from which this arena gets its memory, directly or indirectly.
unsigned distance_from_base(const struct arena* arena) {
  unsigned steps = 0;
  while ((arena = arena_parent(arena))) steps++;
  return steps;
}

void print_in_arenas(Writer& to, uint64_t address, const Page& page) {
  unsigned farthest = 0;
  for (struct arena* arena = arena_walk_next(nullptr); arena; arena = arena_walk_next(arena))
    farthest = std::max(farthest, distance_from_base(arena));
  for (unsigned left = farthest + 1; left-- > 0;) {
    for (struct arena* arena = arena_walk_next(nullptr); arena; arena = arena_walk_next(arena)) {
      if (distance_from_base(arena) == left && arena_walk_is_memory(arena) &&
          print_in_arena(to, arena, address, page))
        return;
    }
  }
  to.print("memory of no arena\n");
}

// ---- The direct map, and the kernel's virtual range.

void print_in_direct_map(Writer& to, uint64_t address, const Page& page) {
  const uint64_t image = address - kDirectMapBase + kKernelImageBase;
  const auto* const pointer = reinterpret_cast<const void*>(address);
  const std::span<const Page> descriptors = page_descriptors();
  const uint64_t frame = (address - value(descriptors.data())) / sizeof(Page);
  kmem_located located;
  if (lies_in(image, image_start, image_end)) {
    to.print("the direct map of 0x%lx, ", image);
    print_in_image(to, image);
    to.print("\n");
  } else if (kmem_locate(pointer, &located)) {
    print_in_slab(to, located, address);
  } else if (print_provided(to, address)) {
    to.print("\n");
  } else if (frame < descriptors.size()) {
    to.print("the descriptor of the page at 0x%lx\n", kDirectMapBase + frame * kPageSize);
  } else {
    print_in_arenas(to, address, page);
  }
}

void print_in_virtual_range(Writer& to, uint64_t address) {
  if (print_provided(to, address) || print_cpu_stack(to, address)) {
    to.print("\n");
    return;
  }
  const bool mapped = is_kernel_mapped(address);
  const ArenaSegment segment = arena_locate(kernel_virtual_arena, address);
  if (segment.size == 0 || segment.free) {
    to.print(mapped ? "mapped, by an unknown owner\n" : "nothing\n");
    return;
  }
  print_into(to, address, segment.start);
  to.print("an allocation from the arena %s, 0x%lx with %lu bytes%s\n",
           arena_name(kernel_virtual_arena), segment.start, segment.size,
           mapped ? "" : ", where nothing is mapped");
  describe_origin(to, kernel_virtual_arena, segment.start);
}

}  // namespace

void describe(Writer& to, uint64_t address) {
  to.print("0x%lx is ", address);
  if (address < kUserEnd) {
    to.print("an address of user space\n");
  } else if (lies_in(address, image_start, image_end)) {
    print_in_image(to, address);
    to.print("\n");
  } else if (const Page* const page = page_of(reinterpret_cast<const void*>(address))) {
    print_in_direct_map(to, address, *page);
  } else {
    print_in_virtual_range(to, address);
  }
}

void describe_root(Writer& to, uint64_t address) {
  if (const Symbol variable = variable_lookup(address); variable.name)
    return to.print("%s+0x%lx", variable.name, variable.offset);
  to.print("0x%lx, ", address);
  if (lies_in(address, image_start, image_end)) {
    print_in_image(to, address);
  } else if (!print_provided(to, address) && !print_cpu_stack(to, address)) {
    to.print("a root");
  }
}

void describe_frame(Writer& to, uint64_t return_address) {
  const Symbol symbol = symbol_lookup(return_address - 1);
  to.print("    %016lx ", return_address);
  if (symbol.name) {
    to.print("%s+0x%lx\n", symbol.name, symbol.offset + 1);
  } else {
    to.print("?\n");
  }
}

}  // namespace reach
