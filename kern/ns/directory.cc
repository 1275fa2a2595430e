// Reading directories.
//
// The offset of an open directory is a position in its union. Bits 48 and up are the number of the
// union's member. The lower bits are the device's own position in that member. The first member is
// special: there, positions 0 and 1 are `.` and `..`, and the device's own positions begin at 2. A
// name that an earlier member has hides the same name in later members.
//
// A read skips hidden entries. A user can make many of them, so a read may take long. Before each
// entry, the read checks whether the process is ending.

#include <cstddef>

#include "core/errstr.h"
#include "lib/string.h"
#include "ns/namespace.h"
#include "proc/process.h"

namespace {

constexpr unsigned kMemberShift = 48;
constexpr uint64_t kPositionMask = (uint64_t{1} << kMemberShift) - 1;

// Returns member `index` of the open union that begins with `directory`; nullptr after the last.
Chan* union_member(Chan& directory, uint64_t index) {
  Chan* chan = &directory;
  while (chan && index-- > 0) chan = chan->union_next.get();
  return chan;
}

bool hidden(Chan& directory, uint64_t member, std::string_view name) {
  Chan* earlier = &directory;
  for (uint64_t i = 0; i < member; ++i, earlier = earlier->union_next.get())
    if (earlier->device->walk(*earlier, name, directory.opener)) return true;
  return false;
}

// Gets the entry at `offset`, and moves `offset` to the next entry. ENOENT at the end; EINTR if the
// process is ending.
[[gnu::noinline]] Result<void> next_entry(Chan& directory, uint64_t& offset, abi_stat& stat,
                                          char* name) {
  for (;;) {
    if (process_is_ending()) return Errno::EINTR;
    const uint64_t member = offset >> kMemberShift, dots = member == 0 ? 2 : 0;
    uint64_t position = offset & kPositionMask;
    Chan* const chan = union_member(directory, member);
    if (!chan) return Errno::ENOENT;
    if (position < dots) {
      TRY(chan->device->stat(*chan, stat));
      memcpy(name, "..", 3);
      if (position == 0) name[1] = '\0';
      ++offset;
      return {};
    }
    position -= dots;
    Result<void> found = chan->device->entry(*chan, position, stat, name);
    if (!found) {
      if (found.error() != Errno::ENOENT) return found;
      offset = (member + 1) << kMemberShift;
      continue;
    }
    offset = member << kMemberShift | (position + dots);
    if (!hidden(directory, member, name)) return {};
  }
}

}  // namespace

Result<size_t> directory_read(Chan& directory, char* buffer, size_t size) {
  if (!directory.qid.directory) return Errno::ENOTDIR;
  size_t used = 0;
  uint64_t offset = directory.offset;
  for (;;) {
    abi_stat stat;
    char name[kMaxName + 1];
    uint64_t after = offset;
    Result<void> found = next_entry(directory, after, stat, name);
    if (!found) {
      if (found.error() != Errno::ENOENT && used == 0) return found.error();
      break;
    }
    const size_t name_length = strlen(name);
    const size_t length = align_up(offsetof(abi_dirent, name) + name_length + 1, 8);
    if (length > size - used) {
      if (used == 0)
        return fail(Errno::EINVAL, "the buffer is too small for an entry of %zu bytes", length);
      break;
    }
    auto* const entry = reinterpret_cast<abi_dirent*>(buffer + used);
    memset(entry, 0, length);
    entry->ino = stat.ino;
    entry->next = after;
    entry->length = static_cast<uint16_t>(length);
    entry->type = static_cast<uint8_t>((stat.mode & ABI_S_IFMT) >> 12);
    memcpy(entry->name, name, name_length + 1);
    used += length;
    offset = after;
  }
  directory.offset = offset;
  return used;
}
