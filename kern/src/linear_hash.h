/* A hash that grows and shrinks by one bucket at a time. For C and C++. After Litwin, "Linear
 * Hashing: A New Tool for File and Table Addressing" (VLDB 1980), kept in memory as in Larson,
 * "Dynamic Hash Tables" (CACM 1988).
 *
 * Each item has one word that links it into a chain, and another that is its unique key. Let b be
 * the number of buckets, with 2^n < b <= 2^(n+1). The low n+1 bits of an item's hash select its
 * bucket. If there is no bucket with this number, the low n bits select it. So adding a bucket
 * takes items from one existing bucket (a split), and removing a bucket gives its items to one
 * remaining bucket (a merge). No other item moves.
 *
 * On average a bucket has at most two items. While there are more than LINEAR_HASH_FIRST buckets,
 * it also has at least one item on average. To keep these limits, an insertion splits at most one
 * bucket and a removal merges at most one. So an operation touches at most two chains of two items
 * on average, regardless of the size of the hash.
 *
 * Buckets lie in segments. After the first, each segment is as large as all segments before it
 * together. Segments do not move. The hash allocates nothing: its owner provides the memory of a
 * segment when linear_hash_wanted asks for memory, and takes the memory back when linear_hash_spare
 * returns true. So the hash can be used under a lock and in any context. While the hash has no
 * memory for more buckets, the chains get longer. Once it has memory again, each insertion splits
 * one bucket until the hash has caught up.
 *
 * linear_hash_wanted and linear_hash_spare may be called without the owner's lock as a hint; all
 * other functions are called with the lock held.
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
  LINEAR_HASH_PAGE = 512,    /* buckets that fit in a page */
  LINEAR_HASH_SEGMENTS = 24, /* enough for 2^32 buckets */
  LINEAR_HASH_PAGE_SIZE = LINEAR_HASH_PAGE * sizeof(void*),
};

struct linear_hash {
  size_t link, key;  /* offsets of the two words in an item, in bytes */
  uint64_t items;    /* items, buckets and capacity are also read without the lock */
  uint64_t buckets;  /* buckets in use */
  uint64_t capacity; /* buckets that have memory */
  void** segments[LINEAR_HASH_SEGMENTS];
  void* first[LINEAR_HASH_FIRST];
};

static inline void linear_hash_init(struct linear_hash* hash, size_t link, size_t key) {
  __builtin_memset(hash, 0, sizeof(*hash));
  hash->link = link;
  hash->key = key;
  hash->buckets = hash->capacity = LINEAR_HASH_FIRST;
}

/* ---- The two words of an item. */

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

/* Segment 0 is a page of buckets. Its first LINEAR_HASH_FIRST entries stay unused, because these
 * buckets are in hash->first. */
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

/* The high bits of the product depend on the most bits of the key. The byte swap moves these bits
 * to the low end, because the low bits select the bucket. */
static inline uint64_t linear_hash_bucket(const struct linear_hash* hash, uintptr_t key) {
  const uint64_t mixed = __builtin_bswap64((uint64_t)key * 0x9e3779b97f4a7c15);
  const uint64_t mask = ((uint64_t)1 << linear_hash_bit_width(hash->buckets - 1)) - 1;
  const uint64_t bucket = mixed & mask;
  return bucket < hash->buckets ? bucket : bucket & (mask >> 1);
}

/* The bucket that `bucket` was split from. */
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

/* Removes and returns the item with this key; NULL if there is none. */
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

/* True if each item is in its bucket and the count is right. Time is proportional to the items. */
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

/* Bytes of memory that the hash asks for, to be given with linear_hash_give; 0 for none. */
static inline size_t linear_hash_wanted(const struct linear_hash* hash) {
  const uint64_t capacity = __atomic_load_n(&hash->capacity, __ATOMIC_RELAXED);
  const uint64_t buckets = __atomic_load_n(&hash->buckets, __ATOMIC_RELAXED);
  if (buckets < capacity || __atomic_load_n(&hash->items, __ATOMIC_RELAXED) <= 2 * buckets)
    return 0;
  const unsigned segment = linear_hash_segment(capacity);
  return segment < LINEAR_HASH_SEGMENTS ? linear_hash_segment_buckets(segment) * sizeof(void*) : 0;
}

/* Bytes that the owner has given to the hash and not taken back. */
static inline size_t linear_hash_bytes(const struct linear_hash* hash) {
  const uint64_t capacity = __atomic_load_n(&hash->capacity, __ATOMIC_RELAXED);
  return capacity > LINEAR_HASH_FIRST ? capacity * sizeof(void*) : 0;
}

/* Adds `memory` to the hash. Its size is what linear_hash_wanted returned; its content does not
 * matter. False if the hash no longer wants memory of this size. */
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

/* True if linear_hash_take has memory to give back: the buckets of the last segment are not in use
 * and will not be needed soon. */
static inline bool linear_hash_spare(const struct linear_hash* hash) {
  const uint64_t capacity = __atomic_load_n(&hash->capacity, __ATOMIC_RELAXED);
  const uint64_t buckets = __atomic_load_n(&hash->buckets, __ATOMIC_RELAXED);
  return capacity > LINEAR_HASH_FIRST && buckets <= linear_hash_capacity_without_last(capacity) &&
         __atomic_load_n(&hash->items, __ATOMIC_RELAXED) <= buckets;
}

/* Returns memory that the hash does not need any more, with its size; NULL if there is none. An
 * empty hash gives back all its memory, one segment per call. */
static inline void* linear_hash_take(struct linear_hash* hash, size_t* bytes) {
  if (!linear_hash_spare(hash)) return NULL;
  const unsigned segment = linear_hash_segment(hash->capacity - 1);
  *bytes = linear_hash_segment_buckets(segment) * sizeof(void*);
  __atomic_store_n(&hash->capacity, linear_hash_capacity_without_last(hash->capacity),
                   __ATOMIC_RELAXED);
  return hash->segments[segment];
}
