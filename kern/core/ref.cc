#include "core/ref.h"

#include <string_view>

constinit RefClass ref_classes[kRefKinds] = {
    {.name = "ref.chan", .flags = 0, .trace = nullptr},
    {.name = "ref.namespace", .flags = 0, .trace = nullptr},
    {.name = "ref.address_space", .flags = 0, .trace = nullptr},
    {.name = "ref.tmp_node", .flags = 0, .trace = nullptr},
    {.name = "ref.coverage_map", .flags = 0, .trace = nullptr},
    {.name = "ref.pty", .flags = 0, .trace = nullptr},
    {.name = "ref.test", .flags = 0, .trace = nullptr},
};

RefClass* ref_class_at(unsigned index) {
  return index < kRefKinds ? &ref_classes[index] : nullptr;
}

RefClass* ref_class_find(const char* name) {
  for (RefClass& one : ref_classes)
    if (std::string_view(one.name) == name) return &one;
  return nullptr;
}

RefKind ref_kind_of(const RefClass& of) {
  return static_cast<RefKind>(&of - ref_classes);
}

RefTotals ref_totals(RefKind kind) {
  RefTotals totals = {};
  for (const CpuId id : all_cpus()) {
    const RefCounts& counts = cpu(id).refs[static_cast<unsigned>(kind)];
    // Sums the puts before the taken references. So `taken` includes every reference that `put`
    // includes.
    totals.put += __atomic_load_n(&counts.put, __ATOMIC_ACQUIRE) & ~kRefTraced;
  }
  for (const CpuId id : all_cpus()) {
    const RefCounts& counts = cpu(id).refs[static_cast<unsigned>(kind)];
    totals.taken += __atomic_load_n(&counts.taken, __ATOMIC_RELAXED) & ~kRefTraced;
  }
  return totals;
}
