// Messages of the 9P2000.L protocol: writing requests and reading replies.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/string.h"

enum class P9 : uint8_t {
  kRlerror = 7,
  kTstatfs = 8,
  kTlopen = 12,
  kTlcreate = 14,
  kTsymlink = 16,
  kTreadlink = 22,
  kTgetattr = 24,
  kTsetattr = 26,
  kTreaddir = 40,
  kTfsync = 50,
  kTlink = 70,
  kTmkdir = 72,
  kTrenameat = 74,
  kTunlinkat = 76,
  kTversion = 100,
  kTattach = 104,
  kTwalk = 110,
  kTread = 116,
  kTwrite = 118,
  kTclunk = 120,
};

inline constexpr size_t kP9Header = 7;  // size[4] type[1] tag[2]

// Appends little-endian values to a request. The caller makes sure that `buffer` is large enough
// and that no string has more than 65,535 bytes.
class P9Writer {
 public:
  P9Writer(char* buffer, P9 type, uint16_t tag) : buffer_(buffer), at_(4) {
    u8(static_cast<uint8_t>(type)).u16(tag);
  }
  P9Writer& u8(uint8_t value) { return put(value, 1); }
  P9Writer& u16(uint16_t value) { return put(value, 2); }
  P9Writer& u32(uint32_t value) { return put(value, 4); }
  P9Writer& u64(uint64_t value) { return put(value, 8); }
  P9Writer& string(std::string_view text) {
    return u16(static_cast<uint16_t>(text.size())).bytes(text.data(), text.size());
  }
  P9Writer& bytes(const char* data, size_t size) {
    if (size > 0) memcpy(buffer_ + at_, data, size);
    at_ += size;
    return *this;
  }
  // Writes the size of the whole request into the header, and returns the size.
  size_t finish() {
    const auto size = static_cast<uint32_t>(at_);
    memcpy(buffer_, &size, sizeof size);
    return at_;
  }

 private:
  P9Writer& put(uint64_t value, size_t size) {
    return bytes(reinterpret_cast<const char*>(&value), size);
  }

  char* const buffer_;
  size_t at_;
};

struct P9Qid {
  uint8_t type;
  uint32_t version;
  uint64_t path;
  bool directory() const { return type & 0x80; }
  bool symlink() const { return type & 0x02; }
};

// Reads the values of a reply one after the other. A value that does not fit into the rest of the
// reply reads as zero, and ok() is false from then on.
class P9Reader {
 public:
  P9Reader(const char* data, size_t size) : data_(data), size_(size) {}
  uint8_t u8() { return static_cast<uint8_t>(get(1)); }
  uint16_t u16() { return static_cast<uint16_t>(get(2)); }
  uint32_t u32() { return static_cast<uint32_t>(get(4)); }
  uint64_t u64() { return get(8); }
  P9Qid qid() {
    P9Qid qid;
    qid.type = u8();
    qid.version = u32();
    qid.path = u64();
    return qid;
  }
  std::string_view string() { return bytes(u16()); }
  std::string_view bytes(size_t size) {
    if (size > size_ - at_) {
      ok_ = false;
      return {};
    }
    at_ += size;
    return {data_ + at_ - size, size};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return at_ == size_; }

 private:
  uint64_t get(size_t size) {
    uint64_t value = 0;
    const std::string_view raw = bytes(size);
    if (!raw.empty()) memcpy(&value, raw.data(), raw.size());
    return value;
  }

  const char* const data_;
  const size_t size_;
  size_t at_ = 0;
  bool ok_ = true;
};
