// Which files run, and which are open for writing: never both (ETXTBSY).
//
// A program's pages come from its file as they are touched, so whoever could write to the file
// would write into every process that runs it. A channel that was opened for writing or to be
// executed is in a table by its file until it goes, and the regions of an address space hold the
// channel that the program was loaded from. So a file is executed until the last process with a
// page of it ends, and written until the last descriptor is closed. Removing and renaming touch no
// contents and are free: a new version of a running program takes the name of the old one.
//
// A file is known by device and qid, so this serves every device with files that may run. Devices
// whose calls wait for somebody else, as the console and #null, have none, and all may have such a
// device open: their files are left out. What the host does to a file of #p9 is not seen.
//
// The files in use are a digital search tree (Knuth, vol. 3, 6.3): the bits of a file's number, the
// lowest first, say which way to go until the file is found. Its height is at most the number of
// bits, whatever files users choose to open.
#include <utility>

#include "core/log.h"
#include "core/spinlock.h"
#include "kmalloc.h"
#include "ns/chan.h"
#include "ns/namespace.h"

struct UsedFile {
  const Device* device;
  uint64_t path;  // of the qid
  FileUse use;
  uint64_t channels;
  UsedFile* below[2];
};

namespace {

constinit Spinlock use_lock{LockRank::kDevice};  // held for kBits steps
constinit UsedFile* root GUARDED_BY(use_lock) = nullptr;

constexpr unsigned kPathBits = 64, kDeviceBits = 8, kBits = kPathBits + kDeviceBits;

unsigned bit(const Device& device, uint64_t path, unsigned level) {
  return level < kPathBits ? path >> level & 1 : device.id() >> (level - kPathBits) & 1;
}

// What leads to the file, or is to lead there.
UsedFile** find(const Device& device, uint64_t path) REQUIRES(use_lock) {
  ASSERT(device.id() < 1u << kDeviceBits);
  UsedFile** link = &root;
  for (unsigned level = 0; *link && ((*link)->device != &device || (*link)->path != path); level++)
    link = &(*link)->below[bit(device, path, level)];
  return link;
}

// Takes out what `link` leads to. Any leaf below can take its place.
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
