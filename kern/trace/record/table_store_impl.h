// The records of a shard of a trace table (trace/record/table.h), and the hash table that finds
// them.
//
// A shard is a hash table that grows by linear hashing with chains (Litwin, "Linear Hashing: A New
// Tool for File and Table Addressing", VLDB 1980; Larson, "Dynamic Hash Tables", CACM 1988). If a
// shard has no free record, an allocation takes one or two fresh records. Nearly every fresh record
// splits one bucket. So no single operation pays for a rehash, and chains are about one record
// long. The links lie inside the records. The hash of an object is taken from a product: the
// object's address times an odd constant (Knuth, vol. 3, 6.4). The addresses of one cache's objects
// differ in few bits, and follow a regular pattern. Only the high bits of the product depend on all
// bits of the address, so the hash is made of the high bits.
//
// A shard begins with a few embedded buckets, and later takes pages. A page holds records, or a
// segment of 512 buckets. From the second segment on, a shard also has a directory of its segments,
// which is replaced by larger directories (table_store.cc). If there is no memory for buckets,
// chains get longer. If there is no memory for a record, the allocation is recorded in a free
// record of another shard or, if no shard has one, counted as dropped. A shard reuses its freed
// records. The record of an object of 2 GiB or more has two parts, each as large as a record: the
// second part has the size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "intern/ids.h"
#include "lib/optimizer.h"
#include "lib/units.h"
#include "trace/record/record.h"

struct TableStore {
  static constexpr uint32_t kLarge = 1u << 31;
  // The second part of a record whose size has more than 31 bits. It uses the memory of a record.
  // While a shard has such records, its lock is closed to hooks (HookLock). So each free takes the
  // slow path, which frees the second part, too.
  struct Large {
    uint64_t size;    // bytes
    uint64_t names;   // as in Record::names_time, without the time
    uint64_t unused;  // lies where Record::object_mark lies; 0, as in a record that is not in use
    uint64_t next;    // lies where Record::next_stamp lies: the link of a free record
  };

  // The record of an outstanding object.
  struct Record {
    bool used() const { return object_mark != 0; }
    bool is_large() const { return size == kLarge; }
    uint64_t object() const { return TraceRecord::object_of(object_mark); }
    uint32_t mark() const { return TraceRecord::mark_of(object_mark); }
    bool is_owned_by(TraceOwner owner) const { return mark() == static_cast<uint32_t>(owner); }
    bool is_of(uint64_t object) const {
      return (object_mark ^ object) << TraceRecord::kMarkBits == 0;
    }
    CpuId cpu() const { return CpuId{static_cast<uint32_t>(next_stamp & TraceRecord::kCpu)}; }
    bool not_leak() const { return (next_stamp & kNotLeak) != 0; }
    uint64_t bytes() const { return is_large() ? large()->size : size; }
    StackId stack() const { return StackId{stack_time & kNumber}; }
    // The names of the context and of the user stack: kNumberBits each.
    uint64_t names() const { return is_large() ? large()->names : names_time & kNames; }
    static ContextId context_in(uint64_t names) {
      return ContextId{static_cast<uint32_t>(names) & kNumber};
    }
    static StackId user_stack_in(uint64_t names) {
      return StackId{static_cast<uint32_t>(names >> kNumberBits) & kNumber};
    }
    // Computes a time in milliseconds from a stamp (cpu_stamp), which has the number of the epoch,
    // and from `low`, the lower kTimeBits bits of the time. An epoch is half of what these bits
    // count, so the lowest bit of its number should equal the highest bit of `low`. If the bits
    // differ, the CPU had not updated its stamp since the epoch changed, and the time is in the
    // next epoch.
    static Milliseconds time_of(uint64_t stamp, uint32_t low) {
      const uint64_t epoch = (stamp & ((1u << kStampBits) - 1)) >> kStampCpuBits;
      const uint64_t seen = epoch + ((epoch & 1) ^ low >> kEpochShift);
      return {seen >> 1 << kTimeBits | low};
    }
    Milliseconds allocated_at() const {
      return time_of(next_stamp, stack_time >> kNumberBits << 16 |
                                     static_cast<uint32_t>(names_time >> 2 * kNumberBits));
    }
    Large* large() const {
      return reinterpret_cast<Large*>(static_cast<int64_t>(names_time << 16) >> 16);
    }
    // Stores the numbers and the time. `names` may have other bits above the numbers.
    [[gnu::always_inline]] void set_names(uint64_t stack, uint64_t names, uint64_t time) {
      names_time = names;
      const auto low = static_cast<uint16_t>(time);
      __builtin_memcpy(reinterpret_cast<char*>(&names_time) + 6, &low, sizeof(low));
      stack_time = static_cast<uint32_t>(stack);
      const auto high = static_cast<uint8_t>(time >> 16);
      __builtin_memcpy(reinterpret_cast<char*>(&stack_time) + 3, &high, sizeof(high));
    }
    // Changes names() to those of a record whose size is not kLarge, or to the address of a Large.
    void replace_names(uint64_t names) { names_time = (names & kNames) | (names_time & ~kNames); }
    void set_large(Large* large) { replace_names(reinterpret_cast<uint64_t>(large)); }

    Record* next() const {
      return reinterpret_cast<Record*>(static_cast<int64_t>(next_stamp & kLink) >> 16);
    }
    void set_next(Record* next) {
      next_stamp = reinterpret_cast<uint64_t>(next) << 16 | (next_stamp & ~kLink);
    }
    // True if the record has left its chain and is held for a snapshot.
    bool is_held() const { return (next_stamp & kHeld) != 0; }
    void hold(Record* next) {
      set_next(next);
      next_stamp |= kHeld;
    }
    // The link of a free record. A free record needs no stamp, so the link takes the whole word.
    Record* next_free() const { return reinterpret_cast<Record*>(next_stamp); }
    void set_next_free(Record* next) { next_stamp = reinterpret_cast<uint64_t>(next); }

    // The lower 24 bits of the coarse time of the allocation, in milliseconds, are in two fields:
    // bits 16 to 23 in stack_time, bits 0 to 15 in names_time.
    uint32_t stack_time;  // the kernel stack; above it a part of the time
    uint32_t size;        // requested bytes; kLarge: names_time has the address of a Large
    uint64_t names_time;  // the context; above it the user stack; above it a part of the time
    // Canonical addresses need 48 bits, so each of the next two words has room for other fields.
    // object_mark: the object, and its mark or owner (TraceRecord::word_of()). next_stamp: the link
    // to the next record of the chain, shifted by 16 bits; records are aligned, so the link leaves
    // kLinkShift bits, for the stamp, which has the CPU and the upper part of the time (cpu_stamp),
    // and two flags.
    uint64_t object_mark;
    uint64_t next_stamp;

    static constexpr unsigned kTimeBits = 24, kLinkShift = 21;
    static_assert(kEpochShift == kTimeBits - 1 && kStampBits + 2 == kLinkShift);
    static constexpr uint32_t kNumber = (1u << kNumberBits) - 1;
    static constexpr uint64_t kNames = (uint64_t{1} << 2 * kNumberBits) - 1;
    static constexpr uint64_t kNotLeak = 1u << kStampBits, kHeld = kNotLeak << 1,
                              kLink = ~uint64_t{0} << kLinkShift;
  };
  static_assert(sizeof(Record) == 32 && sizeof(Large) == 32);

  // The hash of an object: the product of its address and kHashFactor, with the bytes reversed, so
  // that the best mixed bits become the lowest.
  static uint32_t hash_of(uint64_t object) {
    uint64_t hash = __builtin_bswap64(object * kHashFactor);
    hide_value(hash);  // else the compiler holds the product and parts of it in registers
    return static_cast<uint32_t>(hash);
  }
  static constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15;

  static constexpr uint32_t kFirstBuckets = 4;
  static constexpr uint32_t kSegmentBuckets = kPageSize / sizeof(Record*);
  static constexpr uint32_t kMaxBuckets = uint32_t{1} << 30;
  // A shard adds a bucket only when it has more than 1 + 1/kExtraRecords records per bucket. This
  // saves half a byte for each record.
  static constexpr uint32_t kExtraRecords = 16;

  struct RecordPage {
    static constexpr uint32_t kRecords = 127;
    RecordPage* next;
    uint64_t newer[2];  // a bit for each record: 1 if it is newer than snapshot `snapshot`
    uint32_t snapshot;  // number of a snapshot; `newer` is valid only while this snapshot is open
    uint32_t used;      // number of records that have ever been in use
    Record records[kRecords];

    static RecordPage* of(const Record* record) {
      return reinterpret_cast<RecordPage*>(reinterpret_cast<uint64_t>(record) & ~(kPageSize - 1));
    }
    bool is_newer(uint32_t slot, uint32_t number) const {
      return snapshot == number && (newer[slot / 64] >> slot % 64 & 1) != 0;
    }
    void note_newer(uint32_t slot, uint32_t number) {
      if (snapshot != number) newer[0] = newer[1] = 0;
      snapshot = number;
      newer[slot / 64] |= uint64_t{1} << slot % 64;
    }
  };
  static_assert(sizeof(RecordPage) == kPageSize);
  // A pointer to the first bucket of a segment, minus the index of this bucket in the table. So
  // segment[i] is bucket i of the table.
  using Segment = Record**;
  struct DirectoryHeader;

  Record* first[kFirstBuckets] = {};
  Record* free = nullptr;
  Segment* directory = &only;
  Segment only = first;  // the segment, while there is only one
  uint32_t buckets = kFirstBuckets;
  // 2^(n+1) - 1 and 2^n - 1, where 2^n is the highest bit that is set in `buckets`.
  uint32_t mask = 2 * kFirstBuckets - 1, half_mask = kFirstBuckets - 1;
  uint32_t records = 0;         // number of records that have ever been in use
  RecordPage* pages = nullptr;  // newest page first; only the first may have unused records
  bool tend = false;            // tend_directory() is to be called after the lock is released

  Record*& bucket(uint32_t index) { return directory[index / kSegmentBuckets][index]; }
  // A bucket as hooks use it: an operand of an x86 instruction may have a base and an index, so a
  // hook need not compute the bucket's address.
  struct Bucket {
    Segment segment;
    uint64_t index;
    Record* head() const { return segment[index]; }
    void set_head(Record* record) {
      hide_value(index);  // keeps the compiler from computing the bucket's address
      segment[index] = record;
    }
  };
  Bucket bucket_in_hook(uint32_t hash) const {
    const uint32_t index = bucket_of(hash);
    return {directory[index / kSegmentBuckets], index};
  }
  uint32_t bucket_of(uint32_t hash) const {
    const uint32_t index = hash & mask;
    // The compiler is told that both outcomes are equally likely.
    if (__builtin_expect_with_probability(index < buckets, 1, 0.5)) return index;
    return index & half_mask;
  }
  // Takes a free record. If there is none, takes a fresh one, and may put a second one on the free
  // list. Each fresh record may add a bucket. nullptr when out of memory.
  Record* take_record() {
    Record* record = take_free_record();
    return record ? record : take_fresh_records();
  }
  Record* take_free_record() {
    Record* record = free;
    if (record) free = record->next_free();
    return record;
  }
  Record* take_fresh_records();
  Record* take_fresh_record();
  // True if a record that was never in use can be taken without a new page.
  bool has_fresh() const { return pages && pages->used != RecordPage::kRecords; }
  void give_back(Record* record) {
    record->object_mark = 0;
    record->set_next_free(free);
    free = record;
  }
  void grow();
  static Segment segment_of(void* page, uint32_t index) {
    return reinterpret_cast<Segment>(reinterpret_cast<uint64_t>(page) - index * kPageSize);
  }
  static void* page_of(Segment segment, uint32_t index) {
    return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(segment) + index * kPageSize);
  }
  bool add_segment();
  bool add_first_segment();
  void copy_segments(uint32_t segments);
  // Moves everything to `other` and resets this object.
  void move_to(TableStore& other);
  // Frees the memory of records, buckets and directories, except the page of records `kept` and the
  // pages after it in the list.
  void release(const RecordPage* kept);
};
