// Tests containers, algorithms, ranges and concepts. At the end of the test every object that the
// test has allocated must be freed.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "cxxtest.h"

static std::atomic<long> outstanding;

long outstanding_objects() {
  return outstanding;
}

// These operators new and delete replace those of the C++ library. The library must call them, too.
static void* take(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  outstanding++;
  return memory;
}
static void give(void* memory) {
  if (memory != nullptr) outstanding--;
  std::free(memory);
}
void* operator new(std::size_t size) {
  return take(std::malloc(size != 0 ? size : 1));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  auto unit = static_cast<std::size_t>(alignment);
  return take(aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give(memory);
}

static void containers() {
  std::vector<std::string> words;
  for (int i = 0; i < 1000; i++)
    words.push_back("a word that is long enough for the heap " + std::to_string(i));
  CHECK(words.size() == 1000 && words.capacity() >= 1000 && words.back().ends_with(" 999"));
  words.erase(words.begin() + 1, words.end() - 1);
  words.shrink_to_fit();
  CHECK(words.size() == 2 && words[1].ends_with(" 999"));

  std::map<std::string, int> ordered{{"two", 2}, {"one", 1}, {"three", 3}};
  ordered["four"] = 4;
  std::string keys;
  for (const auto& [key, value] : ordered) keys += key + " ";
  CHECK(keys == "four one three two " && ordered.contains("two") && ordered.erase("two") == 1 &&
        !ordered.contains("two"));

  std::unordered_map<int, std::string> hashed;
  for (int i = 0; i < 10000; i++) hashed.emplace(i * 7919, std::to_string(i));
  bool all = true;
  for (int i = 0; i < 10000; i++) all = all && hashed.at(i * 7919) == std::to_string(i);
  CHECK(all && hashed.size() == 10000 && hashed.find(1) == hashed.end());

  std::deque<int> queue;
  for (int i = 0; i < 5000; i++) queue.push_front(i), queue.push_back(i);
  CHECK(queue.size() == 10000 && queue.front() == 4999 && queue[5000] == 0);
  std::set<int> unique(queue.begin(), queue.end());
  CHECK(unique.size() == 5000 && *unique.lower_bound(100) == 100);

  std::variant<int, std::string> either = "text";
  CHECK(std::get<std::string>(either) == "text" && std::get_if<int>(&either) == nullptr);
  std::optional<int> maybe;
  CHECK(!maybe && maybe.value_or(5) == 5 && std::tuple(1, 'a') < std::tuple(1, 'b'));
}

static void owners() {
  struct Counted {
    explicit Counted(int& alive) : alive_(alive) { alive_++; }
    ~Counted() { alive_--; }
    int& alive_;
  };
  int alive = 0;
  auto one = std::make_unique<Counted>(alive);
  auto other = std::move(one);
  auto shared = std::make_shared<Counted>(alive);
  std::weak_ptr<Counted> weak = shared;
  CHECK(alive == 2 && one == nullptr && other != nullptr && weak.use_count() == 1);
  other.reset();
  auto copy = shared;
  shared.reset();
  CHECK(alive == 1 && !weak.expired());
  copy.reset();
  CHECK(alive == 0 && weak.expired());
  struct alignas(256) Wide {
    char bytes[256];
  };
  auto wide = std::make_unique<Wide>();
  CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 256 == 0);
}

template <typename T>
concept Measurable = requires(const T& thing) {
  { thing.size() } -> std::convertible_to<std::size_t>;
};

static std::size_t measure(const Measurable auto& thing) {
  return thing.size();
}
static std::size_t measure(const auto&) {
  return 0;
}

static void algorithms() {
  std::vector<unsigned> numbers(50000);
  unsigned seed = 1;
  for (auto& number : numbers) number = seed = seed * 1664525 + 1013904223;
  auto copy = numbers;
  std::sort(numbers.begin(), numbers.end());
  std::ranges::stable_sort(copy, std::greater<>());
  std::ranges::reverse(copy);
  CHECK(std::ranges::is_sorted(numbers) && numbers == copy);
  CHECK(std::ranges::binary_search(numbers, seed));

  std::array<std::pair<int, std::string>, 3> pairs{{{3, "c"}, {1, "a"}, {2, "b"}}};
  std::ranges::sort(pairs, {}, &std::pair<int, std::string>::second);
  CHECK(pairs[0].first == 1 && pairs[2].first == 3);
  auto squares = std::views::iota(1, 100) | std::views::filter([](int i) { return i % 2 == 1; }) |
                 std::views::transform([](int i) { return i * i; }) | std::views::take(4);
  CHECK(std::ranges::equal(squares, std::vector{1, 9, 25, 49}));

  int plain[] = {1, 2, 3, 4, 5};
  std::span<int> middle = std::span(plain).subspan(1, 3);
  for (int& number : middle) number *= 10;
  CHECK(std::accumulate(std::begin(plain), std::end(plain), 0) == 96 && middle.size_bytes() == 12);
  CHECK(measure(std::string("four")) == 4 && measure(17) == 0 && std::popcount(0xffu) == 8);
  CHECK((1 <=> 2) < 0 && std::midpoint(10, 20) == 15);
}

void test_containers() {
  long before = outstanding_objects();
  containers();
  owners();
  algorithms();
  CHECK(outstanding_objects() == before);
}
