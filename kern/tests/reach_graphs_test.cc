// Tests the search for unreachable objects (reach/reach.h) on random graphs of objects. A simple
// search of the test's own computes the expected answer.
#include <algorithm>
#include <array>
#include <iterator>
#include <new>
#include <string_view>

#include "arch/x86_64/paging.h"
#include "core/ktest.h"
#include "core/log.h"
#include "intern/trace_memory.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "reach/whatis.h"
#include "tests/reach_looks.h"

extern "C" const char data_start[], not_roots_start[], not_roots_end[], boot_stacks[];

namespace {

constexpr size_t kNoise = 32;  // noise() fills at most this many words of an object
constexpr unsigned kGraphs = 50, kMostObjects = 40, kMostEdges = 80, kRoots = 4, kLooks = 20;
// The last three sizes fill their kmalloc objects, so no stale word is left after the data.
constexpr std::array<size_t, 9> kSizes = {8, 16, 24, 64, 200, 1024, 8192, 12288, 40960};

struct Graph {
  struct Node {
    Hidden object;
    uint32_t size = 0;
    // Set by the test's own search. `reached`: a word of graph_roots leads to the node. `doubtful`:
    // another static word, such as a stale word of an earlier test, led to the node when the graph
    // was made. That word may have changed when the kernel searches, so both answers are right.
    bool reached = false, doubtful = false;
    bool found = false, head = false;

    bool is_lost() const { return !reached && !doubtful; }
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
Graph* graphs = nullptr;  // in the tracer's memory, which is not scanned

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

// Returns the address of the object, or a random address inside the object.
uint64_t pointer_to(const Graph::Node& node) {
  const unsigned long random = ktest_random();
  const uint64_t offset = random % 4 == 0 ? 0 : ktest_random() % node.size;
  return node.object.value() + offset;
}

// Returns a word that is not an address of an object: 0, another small number, a user address, or
// an address of code.
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
  // A later edge may overwrite the word of an earlier edge. So `written` keeps an edge only as long
  // as no other edge overwrites its word.
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

// The test's own search, which follows edges until nothing changes.
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
  for (bool Graph::Node::*const mark : {&Graph::Node::reached, &Graph::Node::doubtful}) {
    std::array<bool, kMostObjects> marked{};
    for (unsigned i = 0; i < graph.nodes_count; i++) marked[i] = graph.nodes[i].*mark;
    spread(graph, marked);
    for (unsigned i = 0; i < graph.nodes_count; i++) graph.nodes[i].*mark = marked[i];
  }
}

// The nodes of all graphs, sorted by address.
struct Places {
  struct Placed {
    uint64_t address;
    Graph::Node* node;
  };
  unsigned count = 0;
  std::array<Placed, kGraphs * kMostObjects> all;

  void collect() {
    count = 0;
    for (unsigned i = 0; i < kGraphs; i++) {
      for (unsigned j = 0; j < graphs[i].nodes_count; j++)
        all[count++] = {graphs[i].nodes[j].object.value(), &graphs[i].nodes[j]};
    }
    std::sort(all.data(), all.data() + count,
              [](const Placed& a, const Placed& b) { return a.address < b.address; });
  }
  // Returns nullptr if no node contains the address.
  Graph::Node* find(uint64_t address) {
    Placed* const after =
        std::upper_bound(all.data(), all.data() + count, address,
                         [](uint64_t value, const Placed& place) { return value < place.address; });
    if (after == all.data() || address - after[-1].address >= after[-1].node->size) return nullptr;
    return after[-1].node;
  }
};
Places* places = nullptr;  // in the tracer's memory

// Marks the nodes to which static words outside graph_roots point.
void doubt_from(const char* from, const char* end) {
  for (const auto* word = reinterpret_cast<const uint64_t*>(from);
       word < reinterpret_cast<const uint64_t*>(end); word++) {
    if (word >= graph_roots[0] && word < graph_roots[kGraphs]) continue;
    if (*word < kDirectMapBase) continue;
    if (Graph::Node* const node = places->find(*word)) node->doubtful = true;
  }
}

void make_graphs(void*) {
  for (unsigned i = 0; i < kGraphs; i++) make_graph(graphs[i], graph_roots[i]);
  places->collect();
  doubt_from(data_start, not_roots_start);
  doubt_from(not_roots_end, boot_stacks);
  for (unsigned i = 0; i < kGraphs; i++) search(graphs[i]);
}

// The findings of a search, in the order in which it reports them. They are in the tracer's memory.
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

// True if the search has reported the right nodes as heads (reach/heads.h). A head is a lost
// node to which no other lost node leads, or one node of a circle to which no lost node outside of
// the circle leads. So the heads lead to all other lost nodes, and no head leads to another head.
bool heads_are_right(const Graph& graph) {
  std::array<bool, kMostObjects> from_heads{};
  for (unsigned i = 0; i < graph.nodes_count; i++) from_heads[i] = graph.nodes[i].head;
  spread(graph, from_heads);
  for (unsigned i = 0; i < graph.nodes_count; i++) {
    if (graph.nodes[i].found && !from_heads[i]) return false;
    if (!graph.nodes[i].head) continue;
    // Node i is a head. If a lost node leads to this head, both must be in one circle, so the head
    // must lead back to the node.
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

// Numbers of lost nodes, which no root leads to.
//   lost_nodes: all lost nodes of all rounds
//   hidden_nodes: the lost nodes of this round that the last search did not find
//   unexplained_nodes: the hidden nodes to which no task's stack leads
//   left_hidden: the sum over all rounds of the nodes that were hidden at the end of the round
constinit uint64_t lost_nodes = 0, hidden_nodes = 0, unexplained_nodes = 0, left_hidden = 0;

void note_all_finds(void*) {
  hidden_nodes = 0;
  for (unsigned i = 0; i < kGraphs; i++) {
    Graph& graph = graphs[i];
    for (unsigned j = 0; j < graph.nodes_count; j++)
      graph.nodes[j].found = graph.nodes[j].head = false;
    note_finds(graph);
    for (unsigned j = 0; j < graph.nodes_count; j++)
      hidden_nodes += graph.nodes[j].is_lost() && !graph.nodes[j].found;
  }
}

// True if a path leads to the object from the stack of a task. The stacks of the test's own tasks
// contain no addresses.
bool is_known_to_a_stack(Hidden object) {
  Result<WhatisAnswer*> answer = whatis_answer_make(object.value());
  EXPECT(answer);
  const std::string_view text = whatis_answer_text(*answer);
  const size_t path = text.find("  path: ");
  const bool known = path != text.npos && text.find("kernel stack of task", path) != text.npos;
  whatis_answer_free(*answer);
  return known;
}

// Counts the lost nodes that were not found and to which no task's stack leads.
void explain_hidden(void*) {
  unexplained_nodes = 0;
  for (unsigned i = 0; i < kGraphs; i++) {
    Graph& graph = graphs[i];
    for (unsigned j = 0; j < graph.nodes_count; j++) {
      const Graph::Node& node = graph.nodes[j];
      if (node.is_lost() && !node.found) unexplained_nodes += !is_known_to_a_stack(node.object);
    }
  }
}

void check_and_free_graphs(void*) {
  unsigned wrong = 0;
  for (unsigned i = 0; i < kGraphs; i++) {
    Graph& graph = graphs[i];
    bool all_told = true;
    for (unsigned j = 0; j < graph.nodes_count; j++) {
      const Graph::Node& node = graph.nodes[j];
      wrong += node.found && node.reached;
      lost_nodes += node.is_lost();
      if (node.found || node.reached) continue;
      all_told = false;
    }
    wrong += all_told && !heads_are_right(graph);
    for (unsigned j = 0; j < graph.nodes_count; j++) free_node(graph.nodes[j]);
    for (uint64_t& root : graph_roots[i]) root = 0;
  }
  EXPECT(wrong == 0);
}

// A stale word on a stack can hide an object and all objects to which it leads. Usually the word
// disappears when other tasks run, so the test repeats the search. If a task sleeps for longer, the
// word stays on its stack, and is_known_to_a_stack() finds the word. If the word disappears between
// the search and this check, the test searches again.
void look_until_all_is_told(LookAtAll& all) {
  constexpr unsigned kFewLooks = 5, kMostLooks = 25;
  for (unsigned i = 0; i < kMostLooks; i++) {
    finds->count = 0;
    all.look();
    in_another_task(note_all_finds, nullptr);
    if (hidden_nodes == 0) return;
    klog("# %lu hidden from look %u", hidden_nodes, i + 1);
    if (i < kFewLooks) continue;
    in_another_task(explain_hidden, nullptr);
    if (unexplained_nodes == 0) break;
  }
  EXPECT(unexplained_nodes == 0);
  left_hidden += hidden_nodes;
}

}  // namespace

// Creates many random graphs. No root leads to some parts of them. The search must report each
// object correctly as reached or unreached, unless a word on the stack of a sleeping task leads to
// it.
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
      look_until_all_is_told(all);
      in_another_task(check_and_free_graphs, nullptr);
    }
  }
  EXPECT(lost_nodes > 1000 && left_hidden * 100 < lost_nodes);
  trace_copy_free(places, sizeof(Places));
  trace_copy_free(finds, sizeof(Finds));
  trace_copy_free(graphs, kGraphs * sizeof(Graph));
  for (kmem_cache*& cache : graph_caches) {
    kmem_cache_destroy(cache);
    cache = nullptr;
  }
}
