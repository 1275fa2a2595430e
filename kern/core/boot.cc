// Reads the boot loader's structures: PVH (xen/include/public/arch-x86/hvm/start_info.h) or
// Multiboot2 (specification 2.0, section 3.6). Their contents are copied into one BootInfo before
// anything is allocated, because the structures lie in memory that the memory map reports as free.
// Early memory comes from the end of the largest usable range below 4 GiB.
#include "core/boot.h"

#include "arch/x86_64/paging.h"
#include "core/log.h"
#include "lib/string.h"

extern "C" const char image_end[];

namespace {

constexpr uint64_t kFourGiB = uint64_t{1} << 32;
constexpr uint32_t kUsable = 1, kAcpiReclaimable = 3, kAcpiPersistent = 4;

constinit BootInfo info;
constinit MemoryMap usable, reserved;
constinit MemoryRange archive{};
constinit bool early_closed = false;

struct PvhStartInfo {
  uint32_t magic, version, flags, module_count;
  uint64_t modules, command_line, acpi_root, memory_map;
  uint32_t memory_map_entries, reserved;
};
struct PvhModule {
  uint64_t address, size, command_line, reserved;
};
struct PvhMemory {
  uint64_t address, size;
  uint32_t type, reserved;
};

struct Multiboot2Tag {
  uint32_t type, size;
};
struct [[gnu::packed]] Multiboot2Memory {
  uint64_t address, size;
  uint32_t type, reserved;
};

struct [[gnu::packed]] Multiboot2Framebuffer {
  uint64_t address;
  uint32_t pitch, width, height;
  uint8_t pixel_bits, kind;
  uint16_t reserved;
  Framebuffer::Colour red, green, blue;
};
constexpr uint8_t kFramebufferPixels = 1, kFramebufferText = 2;

// A part of the BIOS data area.
struct [[gnu::packed]] BiosScreen {
  uint8_t mode;
  uint16_t columns;
  uint8_t unused[23];
  uint16_t controller_port;
};
constexpr uint64_t kBiosScreen = 0x449;

template <typename T>
const T* at(uint64_t physical) {
  return static_cast<const T*>(direct_map({physical}));
}

void add_memory(uint64_t start, uint64_t size, uint32_t type) {
  if (type == kUsable) usable.add(start, size);
  if (type == kUsable || type == kAcpiReclaimable || type == kAcpiPersistent) {
    info.memory.add(start, size);
  } else {
    reserved.add(align_down(start, kPageSize), align_up(start % kPageSize + size, kPageSize));
  }
}

void copy_command_line(const char* text) {
  const size_t length = strnlen(text, sizeof(info.command_line) - 1);
  memcpy(info.command_line, text, length);
  info.command_line[length] = '\0';
}

void parse_pvh(const PvhStartInfo& start) {
  info.acpi_root = {start.acpi_root};
  if (start.command_line) copy_command_line(at<char>(start.command_line));
  if (start.version >= 1) {
    const auto* map = at<PvhMemory>(start.memory_map);
    for (uint32_t i = 0; i < start.memory_map_entries; i++)
      add_memory(map[i].address, map[i].size, map[i].type);
  }
  if (start.module_count > 0) {
    const auto* module = at<PvhModule>(start.modules);
    archive = {{module->address}, module->size};
  }
}

// Kinds other than pixels and text (pixels with a palette) are ignored.
void parse_framebuffer(const Multiboot2Framebuffer& tag) {
  Framebuffer& screen = info.framebuffer;
  if (tag.kind == kFramebufferPixels) {
    screen.kind = Framebuffer::Kind::kPixels;
    screen.red = tag.red;
    screen.green = tag.green;
    screen.blue = tag.blue;
  } else if (tag.kind == kFramebufferText) {
    screen.kind = Framebuffer::Kind::kText;
  }
  screen.address = {tag.address};
  screen.pitch = tag.pitch;
  screen.width = tag.width;
  screen.height = tag.height;
  screen.pixel_bits = tag.pixel_bits;
}

// Without VESA BIOS extensions GRUB does not describe the screen. The BIOS data area (IBM PS/2 and
// PC BIOS Interface Technical Reference) then says whether the screen is in VGA's text mode.
void find_bios_text_mode() {
  constexpr uint8_t kText80Grey = 2, kText80Colour = 3;
  constexpr uint16_t kColourPort = 0x3d4;
  const auto& bios = *at<BiosScreen>(kBiosScreen);
  if (bios.mode != kText80Grey && bios.mode != kText80Colour) return;
  if (bios.columns != 80 || bios.controller_port != kColourPort) return;
  info.framebuffer = {.kind = Framebuffer::Kind::kText,
                      .address = {0xb8000},
                      .pitch = 160,
                      .width = 80,
                      .height = 25,
                      .pixel_bits = 16};
}

void parse_multiboot2(uint64_t address) {
  const uint32_t total = *at<uint32_t>(address);
  bool has_screen = false, has_bios = true;
  for (uint64_t p = address + 8; p < address + total;) {
    const auto* tag = at<Multiboot2Tag>(p);
    const uint64_t body = p + sizeof(Multiboot2Tag);
    switch (tag->type) {
      case 1:
        copy_command_line(at<char>(body));
        break;
      case 3: {
        const auto* bounds = at<uint32_t>(body);
        if (archive.size == 0) archive = {{bounds[0]}, bounds[1] - bounds[0]};
        break;
      }
      case 6: {
        const uint32_t entry_size = *at<uint32_t>(body);
        for (uint64_t e = body + 8; e + sizeof(Multiboot2Memory) <= p + tag->size;
             e += entry_size) {
          const auto* entry = at<Multiboot2Memory>(e);
          add_memory(entry->address, entry->size, entry->type);
        }
        break;
      }
      case 8:
        parse_framebuffer(*at<Multiboot2Framebuffer>(body));
        has_screen = true;
        break;
      case 11:  // UEFI's system table, 32 and 64 bits
      case 12:
        has_bios = false;
        break;
      case 14:  // copy of the root pointer of ACPI 1.0
        if (info.acpi_root.value == 0) info.acpi_root = {body};
        break;
      case 15:  // copy of the root pointer of ACPI 2.0, which is preferred
        info.acpi_root = {body};
        break;
    }
    if (tag->type == 0) break;
    p += align_up(tag->size, 8);
  }
  if (has_bios && !has_screen) find_bios_text_mode();
}

}  // namespace

const BootInfo& boot_info() {
  return info;
}

void boot_parse(uint32_t protocol, PhysAddr information) {
  if (protocol == 0) {
    parse_pvh(*at<PvhStartInfo>(information.value));
  } else {
    parse_multiboot2(information.value);
  }
  info.memory.remove(reserved);  // a map may contradict itself
  // QEMU puts the archive at the end of a microvm's memory, where SeaBIOS has reserved pages.
  const uint64_t archive_page = align_down(archive.start.value, kPageSize);
  info.memory.add(archive_page,
                  align_up(archive.start.value + archive.size, kPageSize) - archive_page);
  info.highest = {info.memory.end()};
  usable.remove(reserved);
  // Memory below 1 MiB is not used: it contains firmware data and the start-up code of other CPUs.
  // The image begins there.
  usable.remove(0, reinterpret_cast<uint64_t>(image_end) - kKernelImageBase);
  if (archive.size > 0) {
    usable.remove(archive.start.value, archive.size);
    info.archive = {static_cast<const std::byte*>(direct_map(archive.start)), archive.size};
  }
  info.usable = usable.ranges();
}

void* early_alloc(size_t size, size_t align) {
  ASSERT(!early_closed);
  const MemoryRange* best = nullptr;
  for (const MemoryRange& range : usable.ranges()) {
    if (range.start.value + range.size > kFourGiB) continue;
    if (!best || range.size > best->size) best = &range;
  }
  if (!best || best->size < size + align + kPageSize)
    panic("no memory for %zu bytes at boot", size);
  // Each allocation takes whole pages, so that the range's end stays page-aligned.
  const uint64_t start =
      align_down(best->start.value + best->size - size, align > kPageSize ? align : kPageSize);
  usable.shrink(best - usable.ranges().data(), best->start.value + best->size - start);
  return direct_map({start});
}

void early_alloc_close() {
  early_closed = true;
}

const char* boot_option(const char* name, size_t* length) {
  const size_t name_length = strlen(name);
  const char* p = info.command_line;
  while (*p) {
    while (*p == ' ') p++;
    const char* word = p;
    while (*p && *p != ' ') p++;
    if (static_cast<size_t>(p - word) < name_length || strncmp(word, name, name_length) != 0)
      continue;
    const char* rest = word + name_length;
    if (rest != p && *rest != '=') continue;
    if (rest == p) {
      *length = 0;
      return "";
    }
    *length = p - rest - 1;
    return rest + 1;
  }
  return nullptr;
}
