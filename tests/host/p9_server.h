// A 9P server for tests of the client. A test gives a function that answers each request; the
// helpers compose messages from numbers and texts.
#pragma once

#include <gtest/gtest.h>

#include <climits>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/dev/p9_client.h"

namespace p9_server {

using Bytes = std::string;

template <typename T>
inline Bytes number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline Bytes u8(uint8_t value) {
  return number(value);
}
inline Bytes u16(uint16_t value) {
  return number(value);
}
inline Bytes u32(uint32_t value) {
  return number(value);
}
inline Bytes u64(uint64_t value) {
  return number(value);
}
inline Bytes text(const Bytes& value) {
  return u16(static_cast<uint16_t>(value.size())) + value;
}
inline Bytes qid(uint8_t type = 0, uint64_t path = 1) {
  return u8(type) + u32(0) + u64(path);
}
inline constexpr uint8_t kDirectory = 0x80;

struct Asked {
  P9 type;
  uint16_t tag;
  Bytes contents;
};
inline Bytes message(uint8_t type, uint16_t tag, const Bytes& contents) {
  return u32(static_cast<uint32_t>(kP9Header + contents.size())) + u8(type) + u16(tag) + contents;
}
inline Bytes reply(const Asked& asked, const Bytes& contents) {
  return message(static_cast<uint8_t>(static_cast<uint8_t>(asked.type) + 1), asked.tag, contents);
}
inline Bytes error(const Asked& asked, uint32_t linux_number) {
  return message(static_cast<uint8_t>(P9::kRlerror), asked.tag, u32(linux_number));
}
inline Bytes attributes(uint64_t size) {
  return u64(0x7ff) + qid() + u32(0100644) + u32(1) + u32(2) + u64(1) + u64(0) + u64(size) +
         u64(4096) + u64(1) + u64(10) + u64(11) + u64(20) + u64(21) + u64(30) + u64(31) +
         Bytes(32, '\0');
}
inline Bytes entry(const Bytes& name, uint64_t next) {
  return qid() + u64(next) + u8(8) + text(name);
}
inline Bytes data(const Bytes& bytes) {
  return u32(static_cast<uint32_t>(bytes.size())) + bytes;
}

// Calls `answer` for each request, and sends the bytes that `answer` returns.
class Server final : public P9Transport {
 public:
  using Answer = std::function<Bytes(const Asked&)>;
  explicit Server(Answer answer) : answer_(std::move(answer)) {}
  ~Server() { EXPECT_EQ(taken_, 0u) << "every slot is given back"; }

  Result<unsigned> acquire() override {
    ++waits;
    if (no_slot) return *no_slot;
    const unsigned slot = requests % kSlots;
    EXPECT_FALSE(taken_ & 1u << slot);
    taken_ |= 1u << slot;
    request_[slot].reset(new char[kP9MessageSize]);
    reply_[slot].reset(new char[kP9MessageSize]);
    memset(reply_[slot].get(), 0xa5, kP9MessageSize);
    return unsigned{slot};
  }
  void release(unsigned slot) override {
    EXPECT_TRUE(taken_ & 1u << slot);
    taken_ &= ~(1u << slot);
    request_[slot].reset();
    reply_[slot].reset();
  }
  char* request(unsigned slot) override { return request_[slot].get(); }
  const char* reply(unsigned slot) override { return reply_[slot].get(); }
  Result<size_t> transact(unsigned slot, size_t size) override {
    ++requests;
    const Bytes sent(request_[slot].get(), size);
    EXPECT_GE(size, kP9Header);
    uint32_t length;
    uint16_t tag;
    memcpy(&length, sent.data(), sizeof length);
    memcpy(&tag, sent.data() + 5, sizeof tag);
    EXPECT_EQ(length, size);
    if (silent) return *silent;
    asked.push_back({static_cast<P9>(sent[4]), tag, sent.substr(kP9Header)});
    const Bytes answer = answer_(asked.back());
    memcpy(reply_[slot].get(), answer.data(), std::min<size_t>(answer.size(), kP9MessageSize));
    return says_received.value_or(answer.size());
  }

  bool is_ending() override { return requests >= ends_after; }

  std::optional<Errno> no_slot, silent;
  unsigned ends_after = UINT_MAX;
  std::optional<size_t> says_received;
  unsigned requests = 0, waits = 0;
  std::vector<Asked> asked;

 private:
  static constexpr unsigned kSlots = kP9Slots;
  const Answer answer_;
  unsigned taken_ = 0;
  std::unique_ptr<char[]> request_[kSlots], reply_[kSlots];
};

}  // namespace p9_server
