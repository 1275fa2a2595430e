// Devices whose tree of files is a table (TableDevice). Also functions for the texts that files of
// devices return, and for the commands that are written to them.

#include <algorithm>
#include <cstdarg>

#include "core/errstr.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/device.h"

Result<Ref<Chan>> TableDevice::attach(std::string_view spec) {
  return Device::attach(spec);
}

Result<Ref<Chan>> TableDevice::walk(Chan& chan, std::string_view name, const Credentials&) {
  if (!chan.qid.directory) return Errno::ENOTDIR;
  for (uint64_t i = 1; i < table_.size(); ++i) {
    if (table_[i].parent != chan.qid.path || name != table_[i].name) continue;
    return Chan::create(
        this, {.path = i, .version = 0, .directory = (table_[i].mode & ABI_S_IFMT) == ABI_S_IFDIR});
  }
  Ref<Chan> found = TRY(Chan::create(this, {}));
  TRY(dynamic_walk(chan, name, *found));
  return found;
}

Result<void> TableDevice::stat(Chan& chan, abi_stat& stat) {
  if (is_dynamic(chan)) return dynamic_stat(chan, stat);
  fill_stat(stat, chan.qid.path, table_[chan.qid.path].mode);
  return {};
}

Result<Ref<Chan>> TableDevice::open(Ref<Chan> chan, uint32_t flags, const Credentials& who) {
  abi_stat now;
  TRY(stat(*chan, now));
  const uint32_t want = wanted_by_open(flags);
  if (chan->qid.directory && (want & 2)) return Errno::EISDIR;
  if (!permitted(now.mode, now.uid, now.gid, who, want)) return Errno::EACCES;
  if (!chan->qid.directory) TRY(open_file(*chan, flags));
  chan->is_open = true;
  chan->open_flags = flags;
  return chan;
}

Result<size_t> TableDevice::read(Chan& chan, char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  return read_file(chan, buffer, size, offset);
}
Result<size_t> TableDevice::write(Chan& chan, const char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  return write_file(chan, buffer, size, offset);
}
Result<void> TableDevice::ioctl(Chan& chan, uint32_t request, void* argument) {
  if (chan.qid.directory) return Errno::ENOTTY;
  return ioctl_file(chan, request, argument);
}
uint16_t TableDevice::poll(Chan& chan, PollWaiter* waiter) {
  if (chan.qid.directory) return ABI_POLLIN | ABI_POLLOUT;
  return poll_file(chan, waiter);
}

Result<void> TableDevice::entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) {
  // A position less than the table's size is an index in the table. Any other position, minus the
  // table's size, is the number of a dynamic entry.
  for (; position < table_.size(); ++position) {
    if (position == 0 || table_[position].parent != directory.qid.path) continue;
    fill_stat(entry, position, table_[position].mode);
    format(name, 256, "%s", table_[position].name);
    ++position;
    return {};
  }
  TRY(dynamic_entry(directory, position - table_.size(), entry, name));
  ++position;
  return {};
}

Result<void> TableDevice::open_file(Chan&, uint32_t) {
  return {};
}
Result<size_t> TableDevice::read_file(Chan&, char*, size_t, uint64_t) {
  return Errno::EACCES;
}
Result<size_t> TableDevice::write_file(Chan&, const char*, size_t, uint64_t) {
  return Errno::EACCES;
}
Result<void> TableDevice::ioctl_file(Chan&, uint32_t, void*) {
  return Errno::ENOTTY;
}
uint16_t TableDevice::poll_file(Chan&, PollWaiter*) {
  return ABI_POLLIN | ABI_POLLOUT;
}
Result<void> TableDevice::dynamic_walk(Chan&, std::string_view, Chan&) {
  return Errno::ENOENT;
}
Result<void> TableDevice::dynamic_stat(Chan&, abi_stat&) {
  return Errno::ENOENT;
}
Result<void> TableDevice::dynamic_entry(Chan&, uint64_t, abi_stat&, char*) {
  return Errno::ENOENT;
}

Result<Text*> Text::create() {
  void* const memory = kmalloc(sizeof(Text), KM_SLEEP);
  if (!memory) return Errno::ENOMEM;
  return new (memory) Text;
}

void Text::destroy(Text* text) {
  if (!text) return;
  kfree(text->data_);
  text->~Text();
  kfree(text);
}

bool Text::reserve(size_t more) {
  if (failed_) return false;
  if (size_ + more <= capacity_) return true;
  const size_t wanted = std::max<size_t>(size_ + more, std::max<size_t>(capacity_ * 2, 256));
  Result<Charge> charge = charge_current(Charged::kBufferByte, wanted);
  char* const grown = charge ? static_cast<char*>(kmalloc_bytes(wanted, KM_SLEEP)) : nullptr;
  if (!grown) {
    failed_ = true;
    return false;
  }
  if (data_) memcpy(grown, data_, size_);
  kfree(data_);
  data_ = grown;
  capacity_ = wanted;
  charge_ = charge.take();
  return true;
}

void Text::print(const char* pattern, ...) {
  size_t more = 1;  // room for the NUL, which is not part of the text
  while (reserve(more)) {
    va_list arguments;
    va_start(arguments, pattern);
    const size_t room = capacity_ - size_,
                 length = static_cast<size_t>(vformat(data_ + size_, room, pattern, arguments));
    va_end(arguments);
    if (length < room) {
      size_ += length;
      return;
    }
    more = length + 1;
  }
}

void Text::append(std::string_view bytes) {
  if (!reserve(bytes.size())) return;
  memcpy(data_ + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

size_t Text::read(char* buffer, size_t size, uint64_t offset) const {
  return read_text(view(), buffer, size, offset);
}

size_t read_text(std::string_view text, char* buffer, size_t size, uint64_t offset) {
  if (offset >= text.size()) return 0;
  const size_t length = std::min<size_t>(size, text.size() - offset);
  memcpy(buffer, text.data() + offset, length);
  return length;
}

bool next_command(std::string_view& text, CommandLine& line) {
  constexpr std::string_view kBlanks = " \t\r";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view all = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = all.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) continue;
    all = all.substr(first, all.find_last_not_of(kBlanks) - first + 1);
    const size_t word_end = std::min(all.find_first_of(kBlanks), all.size());
    line.word = all.substr(0, word_end);
    const size_t rest = all.find_first_not_of(kBlanks, word_end);
    line.rest = rest == std::string_view::npos ? std::string_view{} : all.substr(rest);
    return true;
  }
  return false;
}

Result<void> check_command_text(std::string_view text, const char* expected) {
  if (text.size() > kMaxCommandText) {
    return fail(Errno::EINVAL, "%zu bytes in one write, at most %zu: expected %s", text.size(),
                kMaxCommandText, expected);
  }
  if (!is_command_text(text)) return fail(Errno::EINVAL, "not text: expected %s", expected);
  return {};
}

bool is_command_text(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= ' ' && c <= '~') || c == '\t' || c == '\n' || c == '\r'; });
}
