// A walk along a path. The theory is in walk.cc.
#pragma once

#include <string_view>

#include "kmalloc.h"
#include "ns/chan_impl.h"
#include "ns/mount_impl.h"

// Says what a walk does if another channel is mounted on the last file of the path: it moves to the
// mounted channel (kCross) or stays at the file (kStay).
enum class Last { kCross, kStay };
// If a path is relative, the result's name begins with a name of the current directory: with the
// name by which this directory was reached (kAsReached), or with its current name (kPresent). After
// a rename of a directory, finding the current name costs a walk.
enum class Name { kAsReached, kPresent };

// A path, split into a directory and the last name. The last name is to be created, removed or
// renamed in the directory.
struct Split {
  std::string_view directory, name;
};
// Splits a path. ENOENT for an empty path; EPERM for the root of a device; EINVAL for `/`, `.` and
// `..`; ENAMETOOLONG.
Result<Split> split(std::string_view path);

class Walk {
 public:
  explicit Walk(const PathContext& context, Name name = Name::kAsReached)
      : context_(context), name_kind_(name) {}
  ~Walk() { kfree(link_text_); }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  // Walks to the file that `path` names. ELOOP, ENOENT, ENAMETOOLONG, and the errors of single
  // steps: EACCES, ENOTDIR and errors of devices.
  Result<void> to(std::string_view path, Last last, Links links = Links::kFollow);
  // Walks to the directory in which the file `path` is to be created; `name` becomes the new file's
  // name in this directory, and is valid as long as this Walk exists. With kFollow, a dangling
  // symbolic link is followed to its missing target, and an existing file causes EEXIST.
  Result<void> to_new(std::string_view path, Links links, std::string_view& name);

  // Returns the channel that the walk has reached, with its name. The caller has the only
  // reference.
  Result<Ref<Chan>> finish();

  Chan& at() { return *at_.chan; }
  // The directory in which the last step found at(); in a union, the member that has the name.
  // nullptr if the last step was `.` or `..`, or if there was no step.
  Chan* found_in() { return found_in_.get(); }
  // Finds the entry `name` of the directory that the walk has reached. Sets `found_in` to the
  // directory that has the entry; in a union, this is one of the members.
  Result<Ref<Chan>> lookup(std::string_view name, Ref<Chan>& found_in);
  // Returns the directory in which new files are made: the directory that the walk has reached or,
  // if it is a union, the member for new files. EPERM if the union has no such member.
  Result<Ref<Chan>> creation_member();
  Result<void> check(Chan& chan, uint32_t want);

 private:
  // The file that a walk has reached.
  struct Reached {
    Ref<Chan> chan;
    // The file that the channel covers, if the channel is mounted.
    Device* mount_device = nullptr;
    uint64_t mount_path = 0;
    bool is_shared = false;  // others use it: the root, the current directory or a mounted channel

    static Reached shared(Chan& chan) {
      return {Ref<Chan>(&chan), chan.mount_device, chan.mount_path, true};
    }
    Chan* operator->() const { return chan.get(); }
  };

  // Sets at_ and the name to the start of `path`. If `path` begins with #NAME, removes this from
  // `path`.
  Result<void> start(std::string_view& path);
  Result<void> start_root();
  Result<void> start_device(std::string_view& path);
  Result<void> mend_name();
  Result<void> set_name(std::string_view name);
  Result<void> steps(std::string_view path, Last last, Links links);
  // Sets `before` to the directory in which the step began.
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
  char* link_text_ = nullptr;  // the last link's target, then the path after the link; kmalloc'ed
  // The name of at_, of `length_` bytes, and the name that to_new() returns. Filled by the start of
  // a walk.
  PathBuffer names_;
  size_t length_ = 0;
};
