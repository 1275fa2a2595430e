// Which files run, and which are open for writing: never both (ETXTBSY).
//
// A program's pages come from its file as they are touched, so whoever could write to the file
// would write into every process that runs it. A channel that was opened for writing or to be
// executed is in a table by its file until it goes, and the regions of an address space hold the
// channel that the program was loaded from. So a file is executed until the last process with a
// page of it ends, and written until the last descriptor is closed. Removing and renaming touch no
// contents and are free: a new version of a running program takes the name of the old one.
//
// The table knows files by device and qid, so it serves every device, and links lie in the
// channels: nothing is allocated. What the host does to a file of #p9 it does not see.
#include <array>

#include "ns/chan.h"
#include "ns/namespace.h"

#include "core/spinlock.h"

namespace {

constexpr size_t kBuckets = 64;

constinit Spinlock use_lock{LockRank::kDevice};  // held for a look at one bucket
constinit std::array<List<Chan, &Chan::use_link>, kBuckets> buckets GUARDED_BY(use_lock);

}  // namespace

Result<void> file_use_begin(Chan& chan, FileUse use) {
  const Guard guard(use_lock);
  auto& bucket = buckets[chan.qid.path % kBuckets];
  for (const Chan& other : bucket) {
    if (other.device == chan.device && other.qid == chan.qid && other.use != use)
      return Errno::ETXTBSY;
  }
  chan.use = use;
  bucket.push_back(chan);
  return {};
}

void file_use_end(Chan& chan) {
  if (chan.use == FileUse::kNone) return;  // of a channel that nobody else holds
  const Guard guard(use_lock);
  chan.use_link.unlink();
}
