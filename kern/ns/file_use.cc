// Tracks files that are executed and files that are open for writing; a file is never both
// (ETXTBSY).
//
// A program's pages are read from its file on first access, so a writer of the file would change
// every process that runs it. A channel that was opened for writing or execution is counted in a
// table of files until the channel is freed. The regions of an address space hold the channel of
// their program. So a file counts as executed until the last process that runs it ends, and as
// written until its last writable descriptor is closed. Removing and renaming change no contents
// and are always allowed: a new version of a running program can take its name.
//
// A file is identified by device and qid, so the table serves every device with executable files.
// Only devices for which Device::one_offset() is true hold files that are tracked. Files of other
// devices, such as the console and #null, are never executable, and any number of processes may
// open them.
// Changes that the host makes to a file of #p9 are not noticed.
//
// The files in use form a digital search tree (Knuth, vol. 3, 6.3): the bits of a file's qid path
// and device id, the lowest first, direct the search. The tree's height is at most the number of
// these bits: users cannot make it higher by their choice of files.
#include <utility>

#include "core/log.h"
#include "core/spinlock.h"
#include "kmalloc.h"
#include "ns/chan_impl.h"
#include "ns/namespace.h"

struct UsedFile {
  const Device* device;
  uint64_t path;  // path of the qid
  FileUse use;
  uint64_t channels;
  UsedFile* below[2];
};

namespace {

constinit Spinlock use_lock{LockRank::kDevice};  // held for at most kBits steps in the tree
constinit UsedFile* root GUARDED_BY(use_lock) = nullptr;

constexpr unsigned kPathBits = 64, kDeviceBits = 8, kBits = kPathBits + kDeviceBits;

unsigned bit(const Device& device, uint64_t path, unsigned level) {
  return level < kPathBits ? path >> level & 1 : device.id() >> (level - kPathBits) & 1;
}

// Returns the address of the pointer to the file's node. If the file has no node, returns the
// address of the null pointer at which a new node belongs.
UsedFile** find(const Device& device, uint64_t path) REQUIRES(use_lock) {
  ASSERT(device.id() < 1u << kDeviceBits);
  UsedFile** link = &root;
  for (unsigned level = 0; *link && ((*link)->device != &device || (*link)->path != path); level++)
    link = &(*link)->below[bit(device, path, level)];
  return link;
}

// Removes the node at `link`. Any leaf below the node can take its place in the tree.
void remove(UsedFile** link) REQUIRES(use_lock) {
  UsedFile** leaf = link;
  while ((*leaf)->below[0] || (*leaf)->below[1]) leaf = &(*leaf)->below[(*leaf)->below[0] ? 0 : 1];
  UsedFile* const last = std::exchange(*leaf, nullptr);
  if (leaf == link) return;
  last->below[0] = (*link)->below[0];
  last->below[1] = (*link)->below[1];
  *link = last;
}

}  // namespace

FileUseReserve::~FileUseReserve() {
  kfree(file_);
}

Result<void> FileUseReserve::fill() {
  if (!file_) file_ = static_cast<UsedFile*>(kmalloc(sizeof(UsedFile), KM_SLEEP));
  return file_ ? Result<void>() : Errno::ENOMEM;
}

Result<void> file_use_begin(Chan& chan, FileUse use) {
  FileUseReserve reserve;
  return file_use_begin(chan, use, reserve);
}

Result<void> file_use_begin(Chan& chan, FileUse use, FileUseReserve& reserve) {
  if (!chan.device->one_offset()) return {};
  TRY(reserve.fill());
  *reserve.file_ = {chan.device, chan.qid.path, use, 0, {}};
  const Guard guard(use_lock);
  if (chan.used_file) return chan.used_file->use == use ? Result<void>() : Errno::ETXTBSY;
  UsedFile*& file = *find(*chan.device, chan.qid.path);
  if (!file) file = std::exchange(reserve.file_, nullptr);
  if (file->use != use) return Errno::ETXTBSY;
  file->channels++;
  chan.used_file = file;
  return {};
}

void file_use_end(Chan& chan) {
  UsedFile* const file = chan.used_file;
  if (!file) return;
  {
    const Guard guard(use_lock);
    if (--file->channels > 0) return;
    remove(find(*file->device, file->path));
  }
  kfree(file);
}
