// The inline functions of TraceTable that the tracer's hooks (hooks.cc) use. trace/record/table.h
// declares them and includes this file.
//
// In a hook each instruction counts. A hook that uses few registers saves none on the stack. Empty
// `asm`s (hide_value, hide_object) keep the compiler from holding values in registers or computing
// them early. The comment on such an `asm` names the rows of `make bench` that the `asm` improves:
// traced, free_after_stop, traced_oldest_of_*.
#pragma once

#include <bit>

#include "trace/record/table.h"

template <typename Marked, typename Numbers, typename Stamped>
inline bool TraceTable::record_known(uint64_t object, uint64_t size, CpuId cpu, Marked marked,
                                     uint64_t stack, Numbers names, Stamped stamped) {
  const uint32_t hash = hash_of(object);
  Shard& shard = shard_of(cpu);
  Store& store = shard.store;
  if (!shard.lock.lock_in_hook()) [[unlikely]]
    return false;
  Record* const record = store.free;
  if (!record || (home(hash) & shard.bit) == 0) [[unlikely]] {
    shard.lock.unlock_in_hook();
    return false;
  }
  store.free = record->next_free();
  shard.tally.recorded++;
  shard.tally.bytes += size;
  record->object_mark = marked(object);
  Store::Bucket bucket = store.bucket_in_hook(hash);
  record->next_stamp = stamped(reinterpret_cast<uint64_t>(bucket.head()) << 16);
  bucket.set_head(record);
  const uint64_t named = names();
  if (((stack | named) & kStackTruncated) != 0) [[unlikely]]
    shard.tally.truncated++;
  record->size = static_cast<uint32_t>(size);
  record->set_names(stack, named, coarse_milliseconds().value);
  shard.lock.unlock_in_hook();
  return true;
}

inline bool TraceTable::passes_over(uint64_t size, CpuId cpu) {
  int64_t distance;
  const auto weight = static_cast<int64_t>(size | passing_weight_);
  if (__builtin_mul_overflow(weight, passing_step_, &distance)) [[unlikely]]
    return false;
  Shard& shard = shard_of(cpu);
  if (!shard.sampler.pass(distance)) [[unlikely]] {
    shard.sampler.undo_pass(distance);
    return false;
  }
  shard.count_filtered();
  return true;
}

inline bool TraceTable::has_none(uint64_t object) const {
  uint64_t product = Store::kHashFactor;  // hash_of() would need one more register
  asm("imulq %1, %0" : "+r"(product) : "r"(object));
  bool none;
  asm("cmpq $0, %1" : "=@cce"(none) : "m"(homes_[product >> 56]));
  return none;
}

inline bool TraceTable::forget_at_once(uint64_t object, CpuId cpu) {
  const uint32_t hash = hash_of(object);
  Shard& shard = shard_of(cpu);
  if (!shard.lock.lock_in_hook()) [[unlikely]]
    return false;
  bool done = drop_record(shard, hash, object);
  if (!done) [[unlikely]]
    done = none_elsewhere(shard, object);
  shard.lock.unlock_in_hook();
  return done;
}

inline bool TraceTable::forget_elsewhere(uint64_t object, CpuId cpu) {
  Shard& own = shard_of(cpu);
  const uint32_t hash = hash_of(object);
  const uint64_t others = home(hash) & ~own.bit;
  uint32_t index = own.other.load(std::memory_order_relaxed);
  if ((others >> index & 1) == 0) [[unlikely]] {
    if (others == 0) return false;
    index = static_cast<uint32_t>(std::countr_zero(others));
    own.other.store(index, std::memory_order_relaxed);
  }
  Shard& other = shard_at(index);
  if (!other.lock.lock_in_hook()) [[unlikely]]
    return false;
  const bool done = drop_record(other, hash, object);
  other.lock.unlock_in_hook();
  return done;
}

inline bool TraceTable::drop_record(Shard& shard, uint32_t hash, uint64_t object) {
  Store::Bucket bucket = shard.store.bucket_in_hook(hash);
  Record* record = bucket.head();
  if (record && record->is_of(object)) [[likely]] {
    bucket.set_head(record->next());
  } else {
    if (!record) return false;
    hide_value(record);  // for traced, free_after_stop: keeps the loop's loads off the common path
    Record* before = record;
    while ((record = before->next())) {
      if (record->is_of(object)) [[unlikely]]
        break;
      before = record;
      hide_value(before);  // for traced_oldest_of_*, free_after_stop: `before` stays in a register
    }
    if (!record) return false;
    // For traced_oldest_of_*, free_after_stop: makes the compiler re-read next_stamp. A
    // register that holds next_stamp would cost an instruction in each iteration.
    hide_object(before->next_stamp);
    before->set_next(record->next());
  }
  count_freed(shard, record);
  return true;
}

inline bool TraceTable::none_elsewhere(Shard& shard, uint64_t object) {
  // For traced: otherwise the common path would keep these values in registers for this cold path.
  hide_object(shard.store.buckets);
  hide_value(object);
  // While has_few_ is set, an object without a record is left to forget(), because forget() clears
  // a stale bit of homes_. It can do so only if the shard has at most kHomes buckets.
  if (shard.store.buckets <= kHomes && has_few_) return false;
  if ((home(hash_of(object)) | shard.bit) != shard.bit) return false;
  shard.count_unmatched();
  return true;
}

inline void TraceTable::count_freed(Shard& shard, Record* record) {
  shard.tally.freed++;
  shard.tally.bytes -= record->size;
  record->object_mark = 0;
  record->set_next_free(shard.store.free);
  shard.store.free = record;
}
