// A walk along a path. The theory is in walk.cc.
#pragma once

#include <string_view>

#include "kmalloc.h"
#include "ns/chan.h"
#include "ns/mount.h"

enum class Last { kCross, kStay };  // whether a mount at the last file of a walk is crossed
// Whether the name of the result begins with the current directory's present one, which costs a
// walk after a rename, or with the one that it was reached by.
enum class Name { kAsReached, kPresent };

// A path as the directory and the last name in it, of which something is to be made, removed or
// renamed.
struct Split {
  std::string_view directory, name;
};
// EPERM for the root of a device; EINVAL for `.` and `..`; ENAMETOOLONG.
Result<Split> split(std::string_view path);

class Walk {
 public:
  explicit Walk(const PathContext& context, Name name = Name::kAsReached)
      : context_(context), name_kind_(name) {}
  ~Walk() { kfree(link_text_); }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  // To the file that `path` names. ELOOP, and what steps give.
  Result<void> to(std::string_view path, Last last, Links links = Links::kFollow);
  // To the directory in which `path` is to be made; `name` becomes the name in it, as long as the
  // walk. With kFollow a symbolic link that leads nowhere yet says where that is. EEXIST if it is
  // there.
  Result<void> to_new(std::string_view path, Links links, std::string_view& name);

  // The result with its name in it, held by nobody else.
  Result<Ref<Chan>> finish();

  Chan& at() { return *at_.chan; }
  // The directory, a member of the union if it is one, in which the last step found `at`; nothing
  // after `.`, `..` or no step.
  Chan* found_in() { return found_in_.get(); }
  // The entry `name` of the directory reached, with the member of the union that has it.
  Result<Ref<Chan>> lookup(std::string_view name, Ref<Chan>& found_in);
  // The member of the directory reached in which new files are made; EPERM if there is none.
  Result<Ref<Chan>> creation_member();
  Result<void> check(Chan& chan, uint32_t want);

 private:
  // How far a walk has come.
  struct Reached {
    Ref<Chan> chan;
    // The mount point, if the channel is what is mounted there.
    Device* mount_device = nullptr;
    uint64_t mount_path = 0;
    bool is_shared = false;  // others hold the channel too: it is the current directory, or mounted

    static Reached shared(Chan& chan) {
      return {Ref<Chan>(&chan), chan.mount_device, chan.mount_path, true};
    }
    Chan* operator->() const { return chan.get(); }
  };

  // Sets at_ and the name to where `path` begins and takes that off `path`.
  Result<void> start(std::string_view& path);
  Result<void> start_root();
  Result<void> start_device(std::string_view& path);
  Result<void> mend_name();
  Result<void> set_name(std::string_view name);
  Result<void> steps(std::string_view path, Last last, Links links);
  // `before` becomes the directory that the step is taken in.
  Result<void> step(std::string_view name, Last last, Reached& before);
  // `path` becomes the target of `link` with `rest` after it. ELOOP.
  Result<void> read_link(Chan& link, std::string_view rest, std::string_view& path);
  Result<void> to_parent(Last last);
  void cross();

  const PathContext& context_;
  const Name name_kind_;
  Reached at_;
  Ref<Chan> found_in_;
  uint64_t named_at_ = directory_renames();
  unsigned links_followed_ = 0;
  char* link_text_ = nullptr;  // what is left of the path since a link was followed; kmalloc'ed
  char last_name_[kMaxName];   // to_new's
  size_t length_ = 0;
  char name_[kMaxPath];
};
