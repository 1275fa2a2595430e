// Shared by the tests of the namespace: private namespaces, contents of files, and checks that
// nothing is left behind.
#pragma once

#include <string_view>

#include "core/ktest.h"
#include "core/log.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/namespace.h"
#include "slab.h"
#include "tests/cache_stats.h"

// Counts the live objects of the caches that these tests use. The destructor expects the same
// counts as the constructor found.
class LiveCounts {
 public:
  LiveCounts() { count(before_); }
  ~LiveCounts() {
    uint64_t after[kMax];
    count(after);
    for (size_t i = 0; i < used_; ++i) {
      if (after[i] == before_[i]) continue;
      klog("%s: %lu live objects before, %lu after", names_[i], before_[i], after[i]);
      ktest_fail(__FILE__, __LINE__, "every cache has as many live objects as before");
    }
  }

 private:
  static constexpr size_t kMax = 96;

  static bool wanted(std::string_view name) {
    return name.starts_with("kmalloc_") || name == "chan" || name.starts_with("pipe") ||
           name.starts_with("tmp_") || name == "pty" || name == "fd_table" ||
           name.starts_with("mount") || name == "namespace" || name == "file_lock" ||
           name == "locked_file";
  }
  void count(uint64_t* live) {
    used_ = 0;
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
      if (!wanted(kmem_cache_name(cache)) || used_ == kMax) continue;
      names_[used_] = kmem_cache_name(cache);
      live[used_++] = stats_of(cache).live;
    }
  }

  const char* names_[kMax] = {};
  uint64_t before_[kMax] = {};
  size_t used_ = 0;
};

// A private namespace without binds. Its contexts have root's rights unless `uid` is given.
class TestNamespace {
 public:
  TestNamespace() {
    Result<Ref<Namespace>> made = namespace_create();
    EXPECT(made);
    ns_ = made.take();
  }
  PathContext context(Chan* cwd = nullptr, uint32_t uid = 0) const {
    return {.ns = ns_.get(), .cwd = Ref<Chan>(cwd), .who = {uid, uid}};
  }

 private:
  Ref<Namespace> ns_;
};

inline Result<void> path_rename(const PathContext& context, std::string_view from,
                                std::string_view to) {
  return path_rename(context, from, context, to);
}
inline AttributeChange mode_change(uint32_t mode) {
  AttributeChange change;
  change.mode = mode;
  return change;
}
inline Result<void> path_mkdir(const PathContext& context, std::string_view path, uint32_t mode) {
  return path_make(context, path, mode | ABI_S_IFDIR);
}

inline Result<void> write_file(const PathContext& context, std::string_view path,
                               std::string_view text) {
  Ref<Chan> chan = TRY(path_open(context, path, ABI_O_WRONLY | ABI_O_CREAT | ABI_O_TRUNC, 0644));
  EXPECT(TRY(chan->device->write(*chan, text.data(), text.size(), 0)) == text.size());
  return {};
}

inline bool file_is(const PathContext& context, std::string_view path, std::string_view text) {
  Result<Ref<Chan>> chan = path_open(context, path, ABI_O_RDONLY, 0);
  if (!chan) return false;
  char buffer[256];
  Result<size_t> length = (*chan)->device->read(**chan, buffer, sizeof buffer, 0);
  return length && std::string_view(buffer, *length) == text;
}

// A device without files. The device of a test overrides what the test needs.
class EmptyDevice : public Device {
 public:
  using Device::Device;
  Result<Ref<Chan>> walk(Chan&, std::string_view, const Credentials&) override {
    return Errno::ENOENT;
  }
  Result<void> stat(Chan&, abi_stat&) override { return Errno::ENOENT; }
  Result<Ref<Chan>> open(Ref<Chan>, uint32_t, const Credentials&) override { return Errno::ENOENT; }
  Result<size_t> read(Chan&, char*, size_t, uint64_t) override { return Errno::ENOENT; }
  Result<size_t> write(Chan&, const char*, size_t, uint64_t) override { return Errno::ENOENT; }
};

// The result of reading an open file.
struct Bytes {
  Bytes(Chan& chan, uint64_t offset = 0, size_t size = sizeof data) {
    Result<size_t> result = chan.device->read(chan, data, size, offset);
    ok = result.ok();
    if (ok) length = *result;
  }
  bool are(std::string_view text) const { return ok && std::string_view(data, length) == text; }

  bool ok;
  size_t length = 0;
  char data[256];
};

// Returns the names in a directory, each followed by a space.
inline std::string_view names_in(const PathContext& context, std::string_view path,
                                 char (&text)[512]) {
  Result<Ref<Chan>> chan = path_open(context, path, ABI_O_RDONLY, 0);
  if (!chan) return "not a directory";
  size_t used = 0;
  for (;;) {
    alignas(8) char buffer[128];  // small, so that several reads are needed
    Result<size_t> length = directory_read(**chan, buffer, sizeof buffer);
    if (!length || *length == 0) break;
    for (size_t at = 0; at < *length;) {
      const auto* const entry = reinterpret_cast<const abi_dirent*>(buffer + at);
      at += entry->length;
      used += static_cast<size_t>(format(text + used, sizeof text - used, "%s ", entry->name));
    }
  }
  return {text, used};
}
