// Bench: what each live object adds to the cost of a search for unreachable objects
// (reach/reach.h).
#include <new>

#include "bench/bench.h"
#include "intern/trace_memory.h"
#include "reach/look_impl.h"

namespace {

constexpr unsigned kMany = 100'000;

// A node of a list: an object of 64 bytes with one pointer.
struct Node {
  Node* next;
  uint64_t more[7];
};
constinit Node* first = nullptr;  // head of the list

// Runs a search and returns the number of instructions.
uint64_t cost_of_look(reach::Findings& findings) {
  const uint64_t start = tsc();
  const Result<void> looked = reach::look(findings);
  const uint64_t taken = tsc() - start;
  if (!looked || findings.groups->unreached().objects != 0) panic("a look finds what is in use");
  return taken;
}

}  // namespace

// The row is the cost that each node of a list of kMany nodes adds to a search. The cost includes
// the allocator's walk over the nodes and the making of their index.
KBENCH(reach, kTask) {
  const BenchCache cache(sizeof(Node));
  auto* const findings = new (trace_copy_alloc(sizeof(reach::Findings))) reach::Findings;
  cost_of_look(*findings);
  const uint64_t without = cost_of_look(*findings);
  for (unsigned i = 0; i < kMany; i++) {
    auto* const node = static_cast<Node*>(kmem_cache_alloc(cache, KM_SLEEP));
    if (!node) panic("no memory for the nodes of a list");
    *node = {first, {}};
    first = node;
  }
  const uint64_t with = cost_of_look(*findings);
  while (first) {
    Node* const next = first->next;
    kmem_cache_free(cache, first);
    first = next;
  }
  trace_copy_free(findings, sizeof(reach::Findings));
  bench_row(cost_of(with - without, kMany), "unreachable_object");
}
