/* A hash that grows and shrinks by one bucket at a time. C and C++. After Litwin, "Linear Hashing:
 * A New Tool for File and Table Addressing" (VLDB 1980); Larson, "Dynamic Hash Tables" (CACM 1988),
 * keeps it in memory as here.
 *
 * Items are chained through a word of theirs, and found by another, the key, which no two have in
 * common. With b buckets, 2^n < b <= 2^(n+1), an item is in the bucket that the low n+1 bits of its
 * hash name, or if there is none of that number, the low n bits. So one more bucket takes items
 * from one other (a split), and one less gives its items to one (a merge); no other item moves.
 *
 * There are at most two items for a bucket, and at least one as long as there are more buckets than
 * the first: insert does one split, remove one merge when it would be otherwise. That is the bound
 * on any operation: the chain that it searches and the one that it splits, two items each on
 * average, whatever the hash holds.
 *
 * Buckets lie in segments, each as large as all before it, which stay where they are. The owner
 * brings their memory when linear_hash_wanted asks for it, and gets it back: so the hash can be
 * used under a lock and in any context. Without memory it goes on with longer chains, and catches
 * up, two items for each that is inserted.
 *
 * All but linear_hash_wanted and linear_hash_spare are called with the owner's lock held; these two
 * may be asked without it and say when to look closer.
 */
#pragma once

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

enum {
  LINEAR_HASH_FIRST = 16,    /* buckets that need no segment, and are never merged */
  LINEAR_HASH_PAGE = 512,    /* buckets to a page */
  LINEAR_HASH_SEGMENTS = 24, /* for 2^32 buckets */
  LINEAR_HASH_PAGE_SIZE = LINEAR_HASH_PAGE * sizeof(void*),
};

struct linear_hash {
  size_t link, key;  /* where an item has them */
  uint64_t items;    /* read without the lock too, as the next two are */
  uint64_t buckets;  /* in use */
  uint64_t capacity; /* for which there is memory */
  void** segments[LINEAR_HASH_SEGMENTS];
  void* first[LINEAR_HASH_FIRST];
};

static inline void linear_hash_init(struct linear_hash* hash, size_t link, size_t key) {
  __builtin_memset(hash, 0, sizeof(*hash));
  hash->link = link;
  hash->key = key;
  hash->buckets = hash->capacity = LINEAR_HASH_FIRST;
}

/* ---- Of an item. */

static inline void** linear_hash_link(const struct linear_hash* hash, void* item) {
  return (void**)((char*)item + hash->link);
}
static inline uintptr_t linear_hash_key(const struct linear_hash* hash, void* item) {
  return *(uintptr_t*)((char*)item + hash->key);
}

/* ---- Buckets. */

static inline unsigned linear_hash_bit_width(uint64_t number) {
  return number ? 64 - (unsigned)__builtin_clzll(number) : 0;
}

/* The first segment has the buckets up to the end of its page, but for those that need none. */
static inline unsigned linear_hash_segment(uint64_t bucket) {
  return linear_hash_bit_width(bucket / LINEAR_HASH_PAGE);
}
static inline uint64_t linear_hash_segment_start(unsigned segment) {
  return segment == 0 ? 0 : (uint64_t)LINEAR_HASH_PAGE << (segment - 1);
}
static inline uint64_t linear_hash_segment_buckets(unsigned segment) {
  return segment == 0 ? (uint64_t)LINEAR_HASH_PAGE : linear_hash_segment_start(segment);
}

static inline void** linear_hash_place(struct linear_hash* hash, uint64_t bucket) {
  if (bucket < LINEAR_HASH_FIRST) return &hash->first[bucket];
  const unsigned segment = linear_hash_segment(bucket);
  return &hash->segments[segment][bucket - linear_hash_segment_start(segment)];
}

/* The best bits of the product are the highest: they become the lowest. */
static inline uint64_t linear_hash_bucket(const struct linear_hash* hash, uintptr_t key) {
  const uint64_t mixed = __builtin_bswap64((uint64_t)key * 0x9e3779b97f4a7c15);
  const uint64_t mask = ((uint64_t)1 << linear_hash_bit_width(hash->buckets - 1)) - 1;
  const uint64_t bucket = mixed & mask;
  return bucket < hash->buckets ? bucket : bucket & (mask >> 1);
}

/* The one that it was split from. */
static inline uint64_t linear_hash_partner(uint64_t bucket) {
  return bucket - ((uint64_t)1 << (linear_hash_bit_width(bucket) - 1));
}

static inline void linear_hash_split(struct linear_hash* hash) {
  const uint64_t bucket = hash->buckets;
  void** place = linear_hash_place(hash, linear_hash_partner(bucket));
  void** const other = linear_hash_place(hash, bucket);
  *other = NULL;
  __atomic_store_n(&hash->buckets, bucket + 1, __ATOMIC_RELAXED);
  while (*place) {
    void* const item = *place;
    void** const link = linear_hash_link(hash, item);
    if (linear_hash_bucket(hash, linear_hash_key(hash, item)) != bucket) {
      place = link;
      continue;
    }
    *place = *link;
    *link = *other;
    *other = item;
  }
}

static inline void linear_hash_merge(struct linear_hash* hash) {
  const uint64_t bucket = hash->buckets - 1;
  void** const partner = linear_hash_place(hash, linear_hash_partner(bucket));
  void** end = linear_hash_place(hash, bucket);
  void* const chain = *end;
  __atomic_store_n(&hash->buckets, bucket, __ATOMIC_RELAXED);
  if (!chain) return;
  while (*end) end = linear_hash_link(hash, *end);
  *end = *partner;
  *partner = chain;
}

/* ---- Items. */

static inline void linear_hash_insert(struct linear_hash* hash, void* item) {
  void** const place =
      linear_hash_place(hash, linear_hash_bucket(hash, linear_hash_key(hash, item)));
  *linear_hash_link(hash, item) = *place;
  *place = item;
  __atomic_store_n(&hash->items, hash->items + 1, __ATOMIC_RELAXED);
  if (hash->items > 2 * hash->buckets && hash->buckets < hash->capacity) linear_hash_split(hash);
}

/* The item, which is not in the hash any more; NULL if there was none. */
static inline void* linear_hash_remove(struct linear_hash* hash, uintptr_t key) {
  void** place = linear_hash_place(hash, linear_hash_bucket(hash, key));
  while (*place && linear_hash_key(hash, *place) != key) place = linear_hash_link(hash, *place);
  void* const item = *place;
  if (!item) return NULL;
  *place = *linear_hash_link(hash, item);
  __atomic_store_n(&hash->items, hash->items - 1, __ATOMIC_RELAXED);
  if (hash->items < hash->buckets && hash->buckets > LINEAR_HASH_FIRST) linear_hash_merge(hash);
  return item;
}

/* Whether each item is in its bucket and all are counted. Takes time in proportion to them. */
static inline bool linear_hash_sound(struct linear_hash* hash) {
  uint64_t items = 0;
  for (uint64_t bucket = 0; bucket < hash->buckets; bucket++) {
    for (void* item = *linear_hash_place(hash, bucket); item;
         item = *linear_hash_link(hash, item)) {
      if (linear_hash_bucket(hash, linear_hash_key(hash, item)) != bucket || ++items > hash->items)
        return false;
    }
  }
  return items == hash->items;
}

/* ---- Memory: whole pages. */

/* Bytes that linear_hash_give should bring; 0 for none. */
static inline size_t linear_hash_wanted(const struct linear_hash* hash) {
  const uint64_t capacity = __atomic_load_n(&hash->capacity, __ATOMIC_RELAXED);
  const uint64_t buckets = __atomic_load_n(&hash->buckets, __ATOMIC_RELAXED);
  if (buckets < capacity || __atomic_load_n(&hash->items, __ATOMIC_RELAXED) <= 2 * buckets)
    return 0;
  const unsigned segment = linear_hash_segment(capacity);
  return segment < LINEAR_HASH_SEGMENTS ? linear_hash_segment_buckets(segment) * sizeof(void*) : 0;
}

/* Bytes that it has been brought and has not given back. */
static inline size_t linear_hash_bytes(const struct linear_hash* hash) {
  const uint64_t capacity = __atomic_load_n(&hash->capacity, __ATOMIC_RELAXED);
  return capacity > LINEAR_HASH_FIRST ? capacity * sizeof(void*) : 0;
}

/* `memory` of as many bytes as were wanted, with any content. False if it is not wanted
 * any more. */
static inline bool linear_hash_give(struct linear_hash* hash, void* memory, size_t bytes) {
  if (linear_hash_wanted(hash) != bytes) return false;
  const unsigned segment = linear_hash_segment(hash->capacity);
  hash->segments[segment] = (void**)memory;
  __atomic_store_n(&hash->capacity,
                   linear_hash_segment_start(segment) + linear_hash_segment_buckets(segment),
                   __ATOMIC_RELAXED);
  return true;
}

static inline uint64_t linear_hash_capacity_without_last(uint64_t capacity) {
  const uint64_t start = linear_hash_segment_start(linear_hash_segment(capacity - 1));
  return start > LINEAR_HASH_FIRST ? start : (uint64_t)LINEAR_HASH_FIRST;
}

/* Whether linear_hash_take has something to give back: a segment none of whose buckets is in use,
 * nor soon will be. */
static inline bool linear_hash_spare(const struct linear_hash* hash) {
  const uint64_t capacity = __atomic_load_n(&hash->capacity, __ATOMIC_RELAXED);
  const uint64_t buckets = __atomic_load_n(&hash->buckets, __ATOMIC_RELAXED);
  return capacity > LINEAR_HASH_FIRST && buckets <= linear_hash_capacity_without_last(capacity) &&
         __atomic_load_n(&hash->items, __ATOMIC_RELAXED) <= buckets;
}

/* Memory that is not needed any more, and its bytes; NULL if there is none. An empty hash gives all
 * back, call by call. */
static inline void* linear_hash_take(struct linear_hash* hash, size_t* bytes) {
  if (!linear_hash_spare(hash)) return NULL;
  const unsigned segment = linear_hash_segment(hash->capacity - 1);
  *bytes = linear_hash_segment_buckets(segment) * sizeof(void*);
  __atomic_store_n(&hash->capacity, linear_hash_capacity_without_last(hash->capacity),
                   __ATOMIC_RELAXED);
  return hash->segments[segment];
}
