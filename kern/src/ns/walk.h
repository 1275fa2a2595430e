// A walk along a path. The theory is in walk.cc.
#pragma once

#include <string_view>

#include "kmalloc.h"
#include "ns/chan.h"
#include "ns/mount.h"

enum class Last { kCross, kStay };  // to cross a mount on the last file, or not
// The name of the result begins with the current directory's present name (which costs a walk after
// a rename), or with the name that it was reached by.
enum class Name { kAsReached, kPresent };

// A path, split into the directory and the last name in it, which is to be created, removed or
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

  // Walks to the file that `path` names. ELOOP, and errors of steps.
  Result<void> to(std::string_view path, Last last, Links links = Links::kFollow);
  // Walks to the directory in which `path` is to be created; `name` becomes the name in it, valid
  // as long as the walk. With kFollow a dangling symbolic link is followed to its missing target.
  // EEXIST if the file exists.
  Result<void> to_new(std::string_view path, Links links, std::string_view& name);

  // Returns the result with its name, held by nobody else.
  Result<Ref<Chan>> finish();

  Chan& at() { return *at_.chan; }
  // The directory in which the last step found `at`, or the member of the union; nullptr after `.`,
  // `..` or no step.
  Chan* found_in() { return found_in_.get(); }
  // Finds the entry `name` of the directory reached, and the member of the union that has it.
  Result<Ref<Chan>> lookup(std::string_view name, Ref<Chan>& found_in);
  // Returns the member of the directory reached that takes new files; EPERM if there is none.
  Result<Ref<Chan>> creation_member();
  Result<void> check(Chan& chan, uint32_t want);

 private:
  // The state of a walk.
  struct Reached {
    Ref<Chan> chan;
    // The mount point, if the channel is mounted there.
    Device* mount_device = nullptr;
    uint64_t mount_path = 0;
    bool is_shared = false;  // others hold the channel too: the current directory, or a mounted one

    static Reached shared(Chan& chan) {
      return {Ref<Chan>(&chan), chan.mount_device, chan.mount_path, true};
    }
    Chan* operator->() const { return chan.get(); }
  };

  // Sets at_ and the name to the start of `path`, and removes that from `path`.
  Result<void> start(std::string_view& path);
  Result<void> start_root();
  Result<void> start_device(std::string_view& path);
  Result<void> mend_name();
  Result<void> set_name(std::string_view name);
  Result<void> steps(std::string_view path, Last last, Links links);
  // `before` becomes the directory of the step.
  Result<void> step(std::string_view name, Last last, Reached& before);
  // `path` becomes the target of `link`, followed by `rest`. ELOOP.
  Result<void> read_link(Chan& link, std::string_view rest, std::string_view& path);
  Result<void> to_parent(Last last);
  void cross();

  const PathContext& context_;
  const Name name_kind_;
  Reached at_;
  Ref<Chan> found_in_;
  uint64_t named_at_ = directory_renames();
  unsigned links_followed_ = 0;
  char* link_text_ = nullptr;  // the rest of the path after a link was followed; kmalloc'ed
  char last_name_[kMaxName];   // for to_new
  size_t length_ = 0;
  char name_[kMaxPath];
};
