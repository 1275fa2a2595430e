// What nobody can reach (reach/reach.h): graphs whose answer is known, and pointers in every place
// where one may be.
//
// A test must not know its objects by their addresses itself while it looks, or they would be
// reached: it has them complemented. What touches the addresses runs in a task of its own, whose
// stack is nobody's when it has ended.
#include <algorithm>
#include <array>
#include <iterator>
#include <new>

#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "pages.h"
#include "proc/address_space.h"
#include "reach/look.h"
#include "reach/reach.h"
#include "store/trace_memory.h"
#include "tests/team.h"

extern "C" const char data_start[], not_roots_start[], not_roots_end[], boot_stacks[];

using reach::Findings;

namespace {

// An address that the marker does not know for one.
struct Hidden {
  uint64_t complement = ~uint64_t{0};
  Hidden() = default;
  explicit Hidden(const void* pointer) : complement(~reinterpret_cast<uint64_t>(pointer)) {}
  bool is(uint64_t address) const { return complement == ~address; }
  uint64_t value() const { return ~complement; }
  void* get() const { return reinterpret_cast<void*>(value()); }
};

// Runs body(argument) in a task of its own, and waits until that is gone.
void in_another_task(void (*body)(void*), void* argument) {
  Team team(body, argument);
  team.add();
  team.join();
  task_drain_dead();
}

// Looks, with or without an observer; the memory is the tracer's, which is not looked into.
class LookAtAll {
 public:
  LookAtAll() : findings_(new (trace_copy_alloc(sizeof(Findings))) Findings) {}
  ~LookAtAll() { trace_copy_free(findings_, sizeof(Findings)); }
  Findings* operator->() { return findings_; }
  [[gnu::noinline]] void look() { EXPECT(reach::look(*findings_).ok()); }

 private:
  Findings* const findings_;
};

// ---- Whether one object is found.

struct One {
  Hidden object;
  bool seen = false, head = false;
};
void see_one(void* argument, const reach::Object& object, bool head) {
  auto& one = *static_cast<One*>(argument);
  if (!one.object.is(object.address())) return;
  one.seen = true;
  one.head = head;
}

[[gnu::noinline]] bool is_found(Hidden object) {
  One one{.object = object};
  LookAtAll all;
  all->observer = see_one;
  all->observer_argument = &one;
  all.look();
  return one.seen;
}

void allocate(void* place) {
  *static_cast<Hidden*>(place) = Hidden(kmalloc(192, KM_SLEEP | KM_ZERO));
}
void release(void* place) {
  kfree(static_cast<Hidden*>(place)->get());
}
void free_object(Hidden object) {
  in_another_task(release, &object);
}
Hidden make_object() {
  Hidden object;
  in_another_task(allocate, &object);
  return object;
}

}  // namespace

KTEST(reach_object_that_nobody_knows) {
  const Hidden object = make_object();
  EXPECT(is_found(object));
  free_object(object);
  EXPECT(!is_found(object));  // it idles in a magazine
}

// ---- Random graphs.

namespace {

constexpr size_t kNoise = 32;  // words of an object that are not zero, besides pointers
constexpr unsigned kGraphs = 50, kMostObjects = 40, kMostEdges = 80, kRoots = 4, kLooks = 20;
// The last three are whole objects of kmalloc, so that no word of theirs is left as it was.
constexpr std::array<size_t, 9> kSizes = {8, 16, 24, 64, 200, 1024, 8192, 12288, 40960};

struct Graph {
  struct Node {
    Hidden object;
    uint32_t size = 0;
    bool reached = false;  // by the test's own search
    bool found = false, head = false;
  };
  struct Edge {
    uint8_t from, to;
  };
  unsigned nodes_count = 0, edge_count = 0;
  std::array<Node, kMostObjects> nodes;
  std::array<Edge, kMostEdges> edges;
};

constinit uint64_t graph_roots[kGraphs][kRoots] = {};
constinit std::array<kmem_cache*, 6> graph_caches{};
Graph* graphs = nullptr;  // in the tracer's memory

void* make_node(size_t kind) {
  return kind < graph_caches.size() ? kmem_cache_alloc(graph_caches[kind], KM_SLEEP)
                                    : kmalloc(kSizes[kind], KM_SLEEP);
}
void free_node(const Graph::Node& node) {
  for (size_t kind = 0; kind < graph_caches.size(); kind++) {
    if (kSizes[kind] == node.size) return kmem_cache_free(graph_caches[kind], node.object.get());
  }
  kfree(node.object.get());
}

// An address in the object: its first, any, or one with low bits set.
uint64_t pointer_to(const Graph::Node& node) {
  const unsigned long random = ktest_random();
  const uint64_t offset = random % 4 == 0 ? 0 : ktest_random() % node.size;
  return node.object.value() + offset;
}

// Words that are no addresses of objects: small numbers, user addresses, those of code.
uint64_t noise() {
  switch (ktest_random() % 4) {
    case 0:
      return ktest_random() & 0xffff;
    case 1:
      return ktest_random() & 0x7fff'ffff'ffff;
    case 2:
      return reinterpret_cast<uint64_t>(&noise);
    default:
      return 0;
  }
}

void make_graph(Graph& graph, uint64_t (&roots)[kRoots]) {
  graph.nodes_count = 1 + ktest_random() % kMostObjects;
  for (unsigned i = 0; i < graph.nodes_count; i++) {
    const size_t kind = ktest_random() % kSizes.size();
    Graph::Node& node = graph.nodes[i] = {};
    node.object = Hidden(make_node(kind));
    node.size = static_cast<uint32_t>(kSizes[kind]);
    auto* const words = static_cast<uint64_t*>(node.object.get());
    memset(words, 0, node.size);
    for (size_t word = 0; word < std::min(node.size / sizeof(uint64_t), kNoise); word++)
      words[word] = noise();
  }
  // A later edge may be written over an earlier one: what counts is what the words say in the end.
  graph.edge_count = 0;
  struct Written {
    uint8_t from, to;
    uint64_t* place;
  };
  std::array<Written, kMostEdges> written;
  const unsigned edges = ktest_random() % (2 * graph.nodes_count);
  for (unsigned i = 0; i < edges; i++) {
    const auto from = static_cast<uint8_t>(ktest_random() % graph.nodes_count);
    const auto to = static_cast<uint8_t>(ktest_random() % graph.nodes_count);
    auto* const words = static_cast<uint64_t*>(graph.nodes[from].object.get());
    uint64_t* const place = &words[ktest_random() % (graph.nodes[from].size / sizeof(uint64_t))];
    *place = pointer_to(graph.nodes[to]);
    for (unsigned j = 0; j < graph.edge_count; j++) {
      if (written[j].place == place) written[j] = written[--graph.edge_count];
    }
    written[graph.edge_count++] = {from, to, place};
  }
  for (unsigned i = 0; i < graph.edge_count; i++) graph.edges[i] = {written[i].from, written[i].to};
  for (uint64_t& root : roots) {
    root = noise();
    if (ktest_random() % 2 == 0) continue;
    Graph::Node& node = graph.nodes[ktest_random() % graph.nodes_count];
    root = pointer_to(node);
    node.reached = true;
  }
}

// The test's own search: all that edges lead to, until nothing changes.
void spread(const Graph& graph, std::array<bool, kMostObjects>& reached) {
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < graph.edge_count; i++) {
      const Graph::Edge& edge = graph.edges[i];
      if (!reached[edge.from] || reached[edge.to]) continue;
      reached[edge.to] = changed = true;
    }
  }
}

void search(Graph& graph) {
  std::array<bool, kMostObjects> reached{};
  for (unsigned i = 0; i < graph.nodes_count; i++) reached[i] = graph.nodes[i].reached;
  spread(graph, reached);
  for (unsigned i = 0; i < graph.nodes_count; i++) graph.nodes[i].reached = reached[i];
}

// Where nodes lie, by address.
struct Places {
  struct Place {
    uint64_t address;
    Graph::Node* node;
  };
  unsigned count = 0;
  std::array<Place, kGraphs * kMostObjects> all;

  void collect() {
    count = 0;
    for (unsigned i = 0; i < kGraphs; i++) {
      for (unsigned j = 0; j < graphs[i].nodes_count; j++)
        all[count++] = {graphs[i].nodes[j].object.value(), &graphs[i].nodes[j]};
    }
    std::sort(all.data(), all.data() + count,
              [](const Place& a, const Place& b) { return a.address < b.address; });
  }
  // nullptr if the address is in none.
  Graph::Node* find(uint64_t address) {
    Place* const after =
        std::upper_bound(all.data(), all.data() + count, address,
                         [](uint64_t value, const Place& place) { return value < place.address; });
    if (after == all.data() || address - after[-1].address >= after[-1].node->size) return nullptr;
    return after[-1].node;
  }
};
Places* places = nullptr;  // in the tracer's memory

// What other tests have left in static memory are roots as well as the test's own.
void reach_from(const char* from, const char* end) {
  for (const auto* word = reinterpret_cast<const uint64_t*>(from);
       word < reinterpret_cast<const uint64_t*>(end); word++) {
    if (word >= graph_roots[0] && word < graph_roots[kGraphs]) continue;
    if (*word < kDirectMapBase) continue;
    if (Graph::Node* const node = places->find(*word)) node->reached = true;
  }
}

void make_graphs(void*) {
  for (unsigned i = 0; i < kGraphs; i++) make_graph(graphs[i], graph_roots[i]);
  places->collect();
  reach_from(data_start, not_roots_start);
  reach_from(not_roots_end, boot_stacks);
  for (unsigned i = 0; i < kGraphs; i++) search(graphs[i]);
}

// What the look finds, as it goes; in the tracer's memory too.
struct Finds {
  unsigned count = 0;
  struct {
    Hidden object;
    bool head;
  } all[kGraphs * kMostObjects];
};
Finds* finds = nullptr;

void see_node(void*, const reach::Object& object, bool head) {
  if (finds->count == std::size(finds->all)) return;
  finds->all[finds->count++] = {Hidden(reinterpret_cast<void*>(object.address())), head};
}

void note_finds(Graph& graph) {
  for (unsigned i = 0; i < finds->count; i++) {
    for (unsigned j = 0; j < graph.nodes_count; j++) {
      Graph::Node& node = graph.nodes[j];
      if (node.object.complement != finds->all[i].object.complement) continue;
      EXPECT(!node.found);
      node.found = true;
      node.head = finds->all[i].head;
    }
  }
}

// Heads lead to all others, and no head to another one.
bool heads_are_right(const Graph& graph) {
  std::array<bool, kMostObjects> from_heads{};
  for (unsigned i = 0; i < graph.nodes_count; i++) from_heads[i] = graph.nodes[i].head;
  spread(graph, from_heads);
  for (unsigned i = 0; i < graph.nodes_count; i++) {
    if (graph.nodes[i].found && !from_heads[i]) return false;
    if (!graph.nodes[i].head) continue;
    std::array<bool, kMostObjects> from_others{};
    for (unsigned j = 0; j < graph.nodes_count; j++)
      from_others[j] = j != i && graph.nodes[j].found;
    // Whatever leads to the head must be led to by it: it is in a circle with it.
    for (unsigned j = 0; j < graph.nodes_count; j++) {
      if (j == i || !graph.nodes[j].found) continue;
      std::array<bool, kMostObjects> from_one{}, from_head{};
      from_one[j] = true;
      from_head[i] = true;
      spread(graph, from_one);
      spread(graph, from_head);
      if (from_one[i] && !from_head[j]) return false;
      if (from_head[j] && graph.nodes[j].head) return false;
    }
  }
  return true;
}

// A word that something else has left on a stack, or in memory that it has not filled, can hide an
// object, and what that leads to: a few may be missing. None is there that should not.
constinit uint64_t lost_nodes = 0, hidden_nodes = 0;

void check_and_free_graphs(void*) {
  unsigned wrong = 0;
  for (unsigned i = 0; i < kGraphs; i++) {
    Graph& graph = graphs[i];
    note_finds(graph);
    uint64_t hidden = 0;
    for (unsigned j = 0; j < graph.nodes_count; j++) {
      const Graph::Node& node = graph.nodes[j];
      wrong += node.found && node.reached;
      lost_nodes += !node.reached;
      hidden += !node.reached && !node.found;
    }
    hidden_nodes += hidden;
    wrong += hidden == 0 && !heads_are_right(graph);
    for (unsigned j = 0; j < graph.nodes_count; j++) free_node(graph.nodes[j]);
    for (uint64_t& root : graph_roots[i]) root = 0;
  }
  EXPECT(wrong == 0);
}

}  // namespace

// A thousand of them, some parts of which are cut off.
KTEST(reach_random_graphs) {
  for (size_t i = 0; i < graph_caches.size(); i++)
    graph_caches[i] =
        kmem_cache_create("reach_test", kSizes[i], 0, 0, nullptr, nullptr, nullptr, nullptr);
  graphs = static_cast<Graph*>(trace_copy_alloc(kGraphs * sizeof(Graph)));
  finds = new (trace_copy_alloc(sizeof(Finds))) Finds;
  places = new (trace_copy_alloc(sizeof(Places))) Places;
  {
    LookAtAll all;
    all->observer = see_node;
    for (unsigned i = 0; i < kLooks; i++) {
      in_another_task(make_graphs, nullptr);
      finds->count = 0;
      all.look();
      in_another_task(check_and_free_graphs, nullptr);
    }
  }
  if (hidden_nodes > 0) klog("# hidden %lu of %lu", hidden_nodes, lost_nodes);
  EXPECT(lost_nodes > 1000 && hidden_nodes * 20 < lost_nodes);
  trace_copy_free(places, sizeof(Places));
  trace_copy_free(finds, sizeof(Finds));
  trace_copy_free(graphs, kGraphs * sizeof(Graph));
  for (kmem_cache*& cache : graph_caches) {
    kmem_cache_destroy(cache);
    cache = nullptr;
  }
}

// ---- Where a pointer may be.

namespace {

// A task that has the only pointer while `has` is set.
struct Holder {
  Hidden object;
  std::atomic<bool> has{false}, over{false};
};

// In a register, all of the time: what is interrupted has it in the frame that the interrupt saves.
#define HOLD_IN(name, reg)                                                             \
  [[gnu::noinline]] void hold_in_##name(void* argument) {                              \
    auto& holder = *static_cast<Holder*>(argument);                                    \
    asm volatile("movq %[complement], %%" #reg "\n\tnotq %%" #reg                      \
                 "\n\tmovb $1, %[has]\n"                                               \
                 "1:\tpause\n\tcmpb $0, %[over]\n\tje 1b\n\txorq %%" #reg ", %%" #reg  \
                 : [has] "=m"(holder.has)                                              \
                 : [complement] "m"(holder.object.complement), [over] "m"(holder.over) \
                 : #reg, "memory", "cc");                                              \
  }
HOLD_IN(callee_saved, rbx)
HOLD_IN(caller_saved, r11)
HOLD_IN(argument, rdi)

// On the stack of a task that sleeps.
constinit Spinlock sleeper_lock{LockRank::kDevice};
constinit WaitQueue sleeper;
template <typename Known>
void hold_asleep(void* argument, Known known) {
  auto& holder = *static_cast<Holder*>(argument);
  volatile uint64_t on_stack = known(holder.object);
  const Guard guard(sleeper_lock);
  holder.has = true;
  sleeper.wait_uninterruptible(sleeper_lock, [&] { return holder.over.load(); });
  EXPECT(on_stack != 0);
  on_stack = 0;
}
void hold_address(void* argument) {
  hold_asleep(argument, [](Hidden object) { return object.value(); });
}
void hold_interior(void* argument) {
  hold_asleep(argument, [](Hidden object) { return object.value() + 100; });
}
void hold_tagged(void* argument) {
  hold_asleep(argument, [](Hidden object) { return object.value() | 7; });
}
void hold_physical(void* argument) {
  hold_asleep(argument, [](Hidden object) { return direct_map_phys(object.get()).value; });
}

// Not found while a task holds it, and found afterwards.
void expect_held_by(void (*hold)(void*), Hidden object) {
  Holder holder{.object = object};
  Team team(hold, &holder);
  team.add();
  while (!holder.has) task_yield();
  EXPECT(!is_found(object));
  {
    const Guard guard(sleeper_lock);
    holder.over = true;
    sleeper.wake_all();
  }
  team.join();
  task_drain_dead();
  EXPECT(is_found(object));
}
void expect_held_by(void (*hold)(void*)) {
  const Hidden object = make_object();
  expect_held_by(hold, object);
  free_object(object);
}

[[gnu::noinline]] void find_out(One& one) {
  one.seen = is_found(one.object);
}

}  // namespace

KTEST(reach_registers) {
  expect_held_by(hold_in_callee_saved);
  expect_held_by(hold_in_caller_saved);
  expect_held_by(hold_in_argument);
}

KTEST(reach_sleeping_stack) {
  expect_held_by(hold_address);
  expect_held_by(hold_interior);
  expect_held_by(hold_tagged);
}

// In a register that is kept for callers, of the task that looks.
KTEST(reach_own_register) {
  One one{.object = make_object()};
  in_another_task(
      [](void* place) {
        auto& held = *static_cast<One*>(place);
        asm volatile(
            "movq %[complement], %%r14\n\tnotq %%r14\n\tmovq %[one], %%rdi\n\t"
            "call *%[find]\n\txorq %%r14, %%r14" ::[complement] "b"(held.object.complement),
            [one] "r"(&held), [find] "r"(find_out)
            : "rdi", "rsi", "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r14", "memory", "cc");
      },
      &one);
  EXPECT(!one.seen);
  EXPECT(is_found(one.object));
  free_object(one.object);
}

// A page that is known by its physical address, on a stack.
KTEST(reach_page_on_the_way) {
  Hidden page;
  in_another_task(
      [](void* place) {
        const PhysAddr physical = page_alloc(KM_SLEEP | KM_ZERO).take();
        *static_cast<Hidden*>(place) = Hidden(direct_map(physical));
      },
      &page);
  expect_held_by(hold_physical, page);
  in_another_task(
      [](void* place) { page_free(direct_map_phys(static_cast<Hidden*>(place)->get())); }, &page);
}

// ---- Pages of programs, which page tables lead to.

namespace {

constexpr uint64_t kUserAddress = 0x4000'0000;
constexpr unsigned kUserPages = 5;

struct Space {
  Hidden space;
  Hidden page;  // of memory: one of the user's
};
void make_space(void* argument) {
  auto& made = *static_cast<Space*>(argument);
  Ref<AddressSpace> space = AddressSpace::create().take();
  EXPECT(space->add_region(kUserAddress, kUserAddress + kUserPages * kPageSize, 3).ok());
  const uint64_t word = 0x5a5a;
  for (unsigned i = 0; i < kUserPages; i++)
    EXPECT(space->write(kUserAddress + i * kPageSize, &word, sizeof(word)).ok());
  made.space = Hidden(space.release());
}
void drop_space(void* argument) {
  Ref<AddressSpace>::adopt(static_cast<AddressSpace*>(static_cast<Space*>(argument)->space.get()));
}

struct Counted {
  uint64_t pages, spaces, heads;
  Hidden space;
};
void count_pages(void* argument, const reach::Object& object, bool head) {
  auto& counted = *static_cast<Counted*>(argument);
  counted.heads += head;
  counted.pages += object.size() == kPageSize;
  if (counted.space.is(object.address())) {
    counted.spaces++;
    EXPECT(head);
  }
}
[[gnu::noinline]] Counted count_with(Hidden space) {
  Counted counted{};
  counted.space = space;
  LookAtAll all;
  all->observer = count_pages;
  all->observer_argument = &counted;
  all.look();
  return counted;
}

constinit AddressSpace* volatile known_space = nullptr;

}  // namespace

KTEST(reach_user_pages) {
  Space space;
  in_another_task(make_space, &space);
  known_space = static_cast<AddressSpace*>(space.space.get());
  const Counted known = count_with(space.space);
  EXPECT(known.spaces == 0 && known.pages == 0);
  known_space = nullptr;
  // The space, its region, its pages, and four levels of tables.
  const Counted lost = count_with(space.space);
  EXPECT(lost.spaces == 1 && lost.heads == 1 && lost.pages == kUserPages + 4);
  in_another_task(drop_space, &space);
}

// ---- Others.

// Objects of a checked slab, which is laid out in another way.
KTEST(reach_checked_objects) {
  kmem_cache* const cache =
      kmem_cache_create("reach_test", 100, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache_check_start(cache);
  struct Two {
    kmem_cache* cache;
    Hidden kept, freed;
  } two{cache, {}, {}};
  in_another_task(
      [](void* argument) {
        auto& made = *static_cast<Two*>(argument);
        made.kept = Hidden(kmem_cache_alloc(made.cache, KM_SLEEP));
        made.freed = Hidden(kmem_cache_alloc(made.cache, KM_SLEEP));
        kmem_cache_free(made.cache, made.freed.get());
      },
      &two);
  EXPECT(is_found(two.kept));
  EXPECT(!is_found(two.freed));
  kmem_cache_free(cache, two.kept.get());
  kmem_cache_destroy(cache);
}

// ---- Without memory.

namespace {

constinit std::atomic<uint64_t> left_to_succeed{0};  // before each fails
constinit std::atomic<const TaskHead*> failing_task{nullptr};

int fails(kmem_fault_site site, const void*, size_t, int flags) {
  if (current_task_head() != failing_task) return 0;
  if (site != KMEM_FAULT_TRACE && site != KMEM_FAULT_CACHE) return 0;
  if (site == KMEM_FAULT_TRACE && !(flags & KM_SLEEP)) return 0;
  if (left_to_succeed == 0) return 1;
  left_to_succeed--;
  return 0;
}

}  // namespace

// Whatever of it cannot be had, there is no report, and nothing is kept.
KTEST(reach_without_memory) {
  uint64_t failed = 0;
  EXPECT(kmem_faults_begin(fails));
  failing_task = current_task_head();
  for (unsigned succeed = 0;; succeed++) {
    left_to_succeed = succeed;
    Result<ReachReport*> report = reach_report_make();
    if (report) {
      EXPECT(reach_report_text(*report).starts_with("unreachable objects "));
      reach_report_free(*report);
      break;
    }
    EXPECT(report.error() == Errno::ENOMEM);
    failed++;
  }
  failing_task = nullptr;
  kmem_faults_end();
  // What is found; page frames, runs, states, sources, stack; the text.
  EXPECT(failed == 7);
}

// So many that neither the stack of the marker nor an index of the size before is enough.
KTEST(reach_long_list_of_many) {
  struct Node {
    Node* next;
    uint64_t more[3];
  };
  kmem_cache* const cache =
      kmem_cache_create("reach_test", sizeof(Node), 0, 0, nullptr, nullptr, nullptr, nullptr);
  constexpr unsigned kCount = 40000;
  auto* const table = static_cast<Node**>(kmalloc(kCount * sizeof(Node*), KM_SLEEP | KM_ZERO));
  for (unsigned i = 0; i < kCount; i++) {
    table[i] = static_cast<Node*>(kmem_cache_alloc(cache, KM_SLEEP));
    *table[i] = {};
  }
  {
    LookAtAll all;
    all.look();
    EXPECT(all->overflows > 0);
    EXPECT(all->groups->unreached().objects == 0);
    EXPECT(all->live > kCount);
  }
  for (unsigned i = 0; i < kCount; i++) kmem_cache_free(cache, table[i]);
  kfree(table);
  kmem_cache_destroy(cache);
}
