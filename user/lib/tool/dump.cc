#include "tool/dump.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "tool/files.h"

namespace {

struct Damaged {
  const char* what;
};
[[noreturn]] void damaged(const char* what) {
  throw Damaged{what};
}

// Copies those fields of an item of `size` bytes that this program knows. A later kernel may have
// added fields after them.
template <typename Item>
Item item_at(std::span<const char> file, uint64_t offset, uint64_t size) {
  if (size < sizeof(Item)) damaged("an item is too short");
  if (offset > file.size() || file.size() - offset < size) damaged("it ends too early");
  Item item;
  std::memcpy(&item, file.data() + offset, sizeof(Item));
  return item;
}

template <typename Item>
std::vector<Item> items_of(std::span<const char> file, uint64_t offset,
                           const abi_tracedump_section& section) {
  // Divides instead of multiplying: the product with a damaged count could wrap around.
  if (section.item_size == 0 || section.count > section.size / section.item_size)
    damaged("a section is too short");
  std::vector<Item> items;
  items.reserve(section.count);
  for (uint64_t i = 0; i < section.count; i++) {
    items.push_back(item_at<Item>(file, offset + i * section.item_size, section.item_size));
  }
  return items;
}

}  // namespace

Dump Dump::read(const std::string& path) {
  Dump dump;
  const std::string file = read_file(path);
  try {
    dump.parse(file);
  } catch (const Damaged& damaged) {
    throw std::runtime_error(path + ": " + damaged.what);
  }
  return dump;
}

void Dump::parse(std::span<const char> file) {
  const auto header = item_at<abi_tracedump_header>(file, 0, sizeof(abi_tracedump_header));
  if (std::memcmp(header.magic, ABI_TRACEDUMP_MAGIC, sizeof(header.magic)) != 0)
    damaged("it is no dump");
  if (header.version != ABI_TRACEDUMP_VERSION) damaged("it has a version that is not known");
  time_ = header.time;

  std::vector<abi_tracedump_context> contexts;
  std::vector<std::pair<uint32_t, std::vector<abi_tracedump_record>>> records;
  std::string_view strings;
  uint64_t offset = header.header_size;
  for (uint32_t i = 0; i < header.sections; i++) {
    const auto section = item_at<abi_tracedump_section>(file, offset, header.section_header_size);
    offset += header.section_header_size;
    if (offset > file.size() || section.size > file.size() - offset)
      damaged("a section ends too early");
    switch (section.tag) {
      case ABI_TRACEDUMP_SOURCES:
        for (const auto& source : items_of<abi_tracedump_source>(file, offset, section)) {
          sources_.push_back({.header = source, .name = {}, .records = {}});
        }
        break;
      case ABI_TRACEDUMP_CONTEXTS:
        contexts = items_of<abi_tracedump_context>(file, offset, section);
        break;
      case ABI_TRACEDUMP_STACKS:
        for (const auto& stack : items_of<abi_tracedump_stack>(file, offset, section))
          stacks_[stack.id] = stack;
        break;
      case ABI_TRACEDUMP_FRAMES:
        frames_ = items_of<uint64_t>(file, offset, section);
        break;
      case ABI_TRACEDUMP_STRINGS:
        strings = {file.data() + offset, section.size};
        break;
      case ABI_TRACEDUMP_RECORDS:
        records.emplace_back(section.source, items_of<abi_tracedump_record>(file, offset, section));
        break;
      default:
        break;  // a section of a later kernel
    }
    offset += section.size;
  }

  const auto string_at = [&](uint32_t at) {
    const std::string_view rest = strings.substr(std::min<std::size_t>(at, strings.size()));
    return std::string(rest.substr(0, rest.find('\0')));
  };
  for (Source& source : sources_) source.name = string_at(source.header.name);
  for (const auto& context : contexts) contexts_[context.id] = {context, string_at(context.path)};
  for (auto& [source, list] : records) {
    if (source >= sources_.size()) damaged("records of a source that is not there");
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return std::tie(a.stack, a.time, a.object) < std::tie(b.stack, b.time, b.object);
    });
    sources_[source].records = std::move(list);
  }
  for (const auto& [id, stack] : stacks_) {
    if (stack.first_frame > frames_.size() || frames_.size() - stack.first_frame < stack.frames) {
      damaged("a stack's frames are not there");
    }
  }
}

std::span<const uint64_t> Dump::stack(uint32_t id) const {
  const auto found = stacks_.find(id);
  if (found == stacks_.end()) return {};
  return std::span(frames_).subspan(found->second.first_frame, found->second.frames);
}

bool Dump::is_user_stack(uint32_t id) const {
  const auto found = stacks_.find(id);
  return found != stacks_.end() && found->second.kind == ABI_TRACEDUMP_USER;
}

const Dump::Context* Dump::context(uint32_t id) const {
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : &found->second;
}
