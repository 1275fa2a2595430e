#include "drivers/dev/pipe_planted.h"

#ifdef CONFIG_PLANTED_BUGS
#include <atomic>

#include "core/planted.h"
#include "kmalloc.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "sched/task.h"

namespace {

constexpr size_t kLost = 96;
constexpr size_t kFirstTable = 2048, kLastTable = 262144, kTableStep = 224;
constexpr unsigned kBatch = 256;

constinit Mutex mutex{LockRank::kDeviceMutex};
constinit char* table GUARDED_BY(mutex) = nullptr;
constinit size_t table_size GUARDED_BY(mutex) = 0;
constinit std::atomic<unsigned> ended{0}, written{0};

}  // namespace

// escape() keeps the compiler from removing the lost allocation. escape() and the asm below also
// keep the compiler from turning calls into jumps, which would remove callers from the stack.
[[gnu::noinline, gnu::noclone]] static void planted_lose() {
  const void* lost = kmalloc(kLost, KM_SLEEP);
  escape(lost);
}
template <unsigned kNumber>
[[gnu::noinline, gnu::noclone]] static void planted_lose_from() {
  planted_lose();
  asm volatile("" ::"i"(kNumber) : "memory");
}

static void planted_lose_from(unsigned number) {
  switch (number) {
    case 0:
      return planted_lose_from<0>();
    case 1:
      return planted_lose_from<1>();
    case 2:
      return planted_lose_from<2>();
    case 3:
      return planted_lose_from<3>();
    default:
      return planted_lose_from<4>();
  }
}

[[gnu::noinline]] static void planted_regrow() {
  const MutexGuard guard(mutex);
  const size_t size = table ? table_size + kTableStep : kFirstTable;
  if (size > kLastTable) return;
  auto* const larger = static_cast<char*>(kmalloc(size, KM_SLEEP | KM_ZERO));
  if (!larger) return;
  if (table) memcpy(larger, table, table_size);
  kfree(table);
  table = larger;
  table_size = size;
}

[[gnu::noinline, gnu::noclone]] static void planted_batch() {
  const void* places = kmalloc(kBatch * sizeof(void*), KM_SLEEP);
  escape(places);
}

void planted_pipe_ended() {
  const unsigned number = ended.fetch_add(1, std::memory_order_relaxed);
  if (planted(Planted::kFiveStacks)) planted_lose_from(number % 5);
  if (planted(Planted::kOneInTwo) && number % 2 == 0) planted_lose();
  if (planted(Planted::kOneInFour) && number % 4 == 0) planted_lose();
  if (planted(Planted::kOneInTen) && number % 10 == 9) planted_lose();
  if (planted(Planted::kReallocation)) planted_regrow();
}

void planted_pipe_written() {
  if (!planted(Planted::kBatch)) return;
  if (written.fetch_add(1, std::memory_order_relaxed) % kBatch == 0) planted_batch();
}
#endif
