#include "proc/kept_planted_impl.h"

#ifdef CONFIG_PLANTED_BUGS
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "core/planted.h"
#include "kmalloc.h"
#include "lib/list.h"
#include "lib/string.h"
#include "sched/task.h"

namespace {

constinit Mutex kept_mutex{LockRank::kDeviceMutex};

// Allocates a T of zeros; nullptr if there is no memory.
template <typename T>
T* make() {
  return static_cast<T*>(kmalloc(sizeof(T), KM_SLEEP | KM_ZERO));
}

// --- kept_list.

struct Visit {
  uint64_t number;
  ListNode link;
};
constinit List<Visit, &Visit::link> visits GUARDED_BY(kept_mutex);

[[gnu::noinline]] void visits_add() REQUIRES(kept_mutex) {
  if (Visit* const visit = make<Visit>()) visits.push_back(*visit);
}

// --- kept_hash.

struct Cookie {
  Cookie* next;
  uint64_t key;
};
constexpr size_t kBuckets = 4;
constinit Cookie* cookies[kBuckets] GUARDED_BY(kept_mutex) = {};
constinit uint64_t next_cookie GUARDED_BY(kept_mutex) = 0;

[[gnu::noinline]] void cookies_add() REQUIRES(kept_mutex) {
  Cookie* const cookie = make<Cookie>();
  if (!cookie) return;
  cookie->key = next_cookie++;
  Cookie*& bucket = cookies[cookie->key % kBuckets];
  cookie->next = bucket;
  bucket = cookie;
}

// --- kept_slots.

struct Letter {
  uint64_t words[5];
};
struct Mailbox {
  size_t count;
  Letter* letters[200];
};
constinit Mailbox* mailbox GUARDED_BY(kept_mutex) = nullptr;

[[gnu::noinline]] void letters_add() REQUIRES(kept_mutex) {
  if (!mailbox) mailbox = make<Mailbox>();
  if (!mailbox || mailbox->count == std::size(mailbox->letters)) return;
  if (Letter* const letter = make<Letter>()) mailbox->letters[mailbox->count++] = letter;
}

// --- kept_tree.

struct Leaf {
  uint64_t key;
  Leaf* left;
  Leaf* right;
};
constinit Leaf* leaves GUARDED_BY(kept_mutex) = nullptr;
constinit uint64_t last_key GUARDED_BY(kept_mutex) = 1;

[[gnu::noinline]] void leaves_add() REQUIRES(kept_mutex) {
  Leaf* const leaf = make<Leaf>();
  if (!leaf) return;
  last_key = last_key * 6364136223846793005u + 1442695040888963407u;  // keys in no order
  leaf->key = last_key;
  Leaf** place = &leaves;
  while (*place) place = leaf->key < (*place)->key ? &(*place)->left : &(*place)->right;
  *place = leaf;
}

// --- kept_chain.

struct Undo {
  Undo* before;
  char text[40];
};
struct Journal {
  uint64_t number;
  Undo* last;
};
constinit Journal* journal GUARDED_BY(kept_mutex) = nullptr;

[[gnu::noinline]] void undos_add() REQUIRES(kept_mutex) {
  if (!journal) journal = make<Journal>();
  Undo* const undo = journal ? make<Undo>() : nullptr;
  if (!undo) return;
  undo->before = journal->last;
  journal->last = undo;
}

// --- kept_field.

struct Badge {
  uint64_t words[3];
};
struct Guest {
  ListNode link;
  Badge* badge;
};
constexpr unsigned kGuests = 512;
constinit List<Guest, &Guest::link> guests GUARDED_BY(kept_mutex);

void guests_make() REQUIRES(kept_mutex) {
  for (unsigned i = 0; i < kGuests; i++) {
    if (Guest* const guest = make<Guest>()) guests.push_back(*guest);
  }
}

[[gnu::noinline]] void badges_add() REQUIRES(kept_mutex) {
  if (guests.empty()) guests_make();
  for (Guest& guest : guests) {
    if (guest.badge) continue;
    guest.badge = make<Badge>();
    return;
  }
}

// --- kept_words.

constexpr size_t kWords = 200;
constinit void* shelf GUARDED_BY(kept_mutex) = nullptr;

[[gnu::noinline]] void shelf_add() REQUIRES(kept_mutex) {
  if (!shelf) shelf = kmalloc(kWords * sizeof(uint64_t), KM_SLEEP | KM_ZERO);
  if (!shelf) return;
  auto* const words = static_cast<uint64_t*>(shelf);
  for (size_t i = 0; i < kWords; i++) {
    if (words[i] != 0) continue;
    words[i] = reinterpret_cast<uint64_t>(make<Letter>());
    return;
  }
}

// --- kept_ring.

constinit Letter* recent[3] GUARDED_BY(kept_mutex) = {};
constinit size_t next_recent GUARDED_BY(kept_mutex) = 0;

[[gnu::noinline]] void recent_add() REQUIRES(kept_mutex) {
  Letter*& oldest = recent[next_recent++ % std::size(recent)];
  kfree(oldest);
  oldest = make<Letter>();
}

// --- kept_vector.

constinit uint64_t* numbers GUARDED_BY(kept_mutex) = nullptr;
constinit size_t numbers_count GUARDED_BY(kept_mutex) = 0;
constinit size_t numbers_room GUARDED_BY(kept_mutex) = 0;

[[gnu::noinline]] void numbers_add() REQUIRES(kept_mutex) {
  if (numbers_count == numbers_room) {
    const size_t room = numbers_room ? 2 * numbers_room : 4;
    auto* const larger = static_cast<uint64_t*>(kmalloc(room * sizeof(uint64_t), KM_SLEEP));
    if (!larger) return;
    if (numbers) memcpy(larger, numbers, numbers_count * sizeof(uint64_t));
    kfree(numbers);
    numbers = larger;
    numbers_room = room;
  }
  numbers[numbers_count++] = 1;
}

}  // namespace

void planted_keep() {
  const MutexGuard guard(kept_mutex);
  if (planted(Planted::kKeptList)) visits_add();
  if (planted(Planted::kKeptHash)) cookies_add();
  if (planted(Planted::kKeptSlots)) letters_add();
  if (planted(Planted::kKeptTree)) leaves_add();
  if (planted(Planted::kKeptChain)) undos_add();
  if (planted(Planted::kKeptField)) badges_add();
  if (planted(Planted::kKeptWords)) shelf_add();
  if (planted(Planted::kKeptRing)) recent_add();
  if (planted(Planted::kKeptVector)) numbers_add();
}
#endif
