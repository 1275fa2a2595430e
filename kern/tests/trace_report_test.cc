// Tests the tracer's reports: when a cache is destroyed with live objects, and when memory runs
// out.
#include <algorithm>
#include <string_view>

#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "ns/namespace.h"
#include "trace/control/control.h"
#include "trace/dump/report_impl.h"
#include "trace/trace.h"

namespace {

// From construction to destruction, a Lines object collects the lines of the tracer's reports.
class Lines {
 public:
  Lines() {
    length_ = 0;
    trace_report_to(add);
  }
  ~Lines() { trace_report_to(nullptr); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::string_view text() const { return {text_, length_}; }
  bool has(std::string_view what) const { return text().find(what) != std::string_view::npos; }
  size_t count(std::string_view what) const {
    size_t n = 0;
    for (size_t at = text().find(what); at != std::string_view::npos;
         at = text().find(what, at + 1))
      n++;
    return n;
  }
  void expect(std::string_view what) const {
    if (has(what)) return;
    ktest_fail(__FILE__, __LINE__, what.data());
    klog("%.*s", static_cast<int>(std::min<size_t>(length_, 400)), text_);
  }

 private:
  static void add(const char* line) {
    const size_t size = std::min(strlen(line), sizeof(text_) - length_ - 1);
    std::copy_n(line, size, text_ + length_);
    length_ += size;
    text_[length_++] = '\n';
    length_ = std::min(length_, sizeof(text_) - 1);
  }

  static inline char text_[16384];
  static inline size_t length_ = 0;
};

[[gnu::noinline]] void* ktest_leaks_much(kmem_cache* cache) {
  void* object = kmem_cache_alloc(cache, KM_SLEEP);
  keep_frame();
  return object;
}
[[gnu::noinline]] void* ktest_leaks_little(kmem_cache* cache) {
  void* object = kmem_cache_alloc(cache, KM_SLEEP);
  asm volatile("nop");  // keeps the compiler from merging the two functions
  return object;
}

kmem_cache* make_cache(const char* name) {
  kmem_cache* cache = kmem_cache_create(name, 128, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  return cache;
}

constexpr size_t kMuch = 30, kLittle = 4, kBefore = 3;

}  // namespace

KTEST(trace_report_of_a_cache_destroyed_with_live_objects) {
  kmem_cache* cache = make_cache("ktest_zombie");
  if (!cache) return;
  void* objects[kBefore + kMuch + kLittle];
  size_t n = 0;
  while (n < kBefore) objects[n++] = kmem_cache_alloc(cache, KM_SLEEP);
  EXPECT(trace_command(cache, "start").ok());
  while (n < kBefore + kMuch) objects[n++] = ktest_leaks_much(cache);
  while (n < std::size(objects)) objects[n++] = ktest_leaks_little(cache);
  kmem_cache_free(cache, ktest_leaks_little(cache));
  Result<Ref<Namespace>> ns = namespace_create();
  EXPECT(ns.ok());
  if (!ns) return;
  {
    // An open file of the cache's trace keeps the trace readable.
    Result<Ref<Chan>> file = path_open({.ns = ns->get(), .cwd = {}, .who = {0, 0}},
                                       "#mem/kmemtrace/ktest_zombie", ABI_O_RDWR, 0);
    EXPECT(file.ok());
    if (!file) return;
    {
      const Lines lines;
      kmem_cache_destroy(cache);
      lines.expect("  recorded: 34 of them, 4352 bytes; untracked: 3\n");
      lines.expect(
          "  3840 bytes in 30 allocations of ktest_zombie from stack\n    ktest_leaks_much+0x");
      lines.expect(
          "  512 bytes in 4 allocations of ktest_zombie from stack\n    ktest_leaks_little+0x");
      EXPECT(lines.text().find("ktest_leaks_much") < lines.text().find("ktest_leaks_little"));
      EXPECT(lines.count(" from stack\n") == 2 && !lines.has("others") && !lines.has("not known"));
      EXPECT(!lines.has("kmem_cache_alloc"));
    }
    EXPECT(kmem_cache_is_zombie(cache));
    EXPECT(path_open({.ns = ns->get(), .cwd = {}, .who = {0, 0}}, "#mem/kmemtrace/ktest_zombie",
                     ABI_O_RDONLY, 0)
               .error() == Errno::ENOENT);
    char text[1024];
    Result<size_t> got = (*file)->device->read(**file, text, sizeof(text), 0);
    EXPECT(got.ok() && std::string_view(text, *got).find(" live 34 bytes 4352 untracked 3 ") !=
                           std::string_view::npos);
    // After all objects are freed, the file is the last holder of the trace.
    for (void* object : objects) kmem_cache_free(cache, object);
    EXPECT(trace_memory_used() > 0);
  }
  EXPECT(trace_memory_used() == 0);
}

KTEST(trace_report_of_a_cache_that_was_not_traced) {
  kmem_cache* cache = make_cache("ktest_unknown");
  if (!cache) return;
  void* object = ktest_leaks_much(cache);
  const Lines lines;
  kmem_cache_destroy(cache);
  lines.expect("  nothing is known of them: ktest_unknown was not traced\n");
  kmem_cache_free(cache, object);
}

KTEST(trace_report_of_nothing_when_all_is_free) {
  kmem_cache* cache = make_cache("ktest_clean");
  if (!cache) return;
  EXPECT(trace_command(cache, "start").ok());
  kmem_cache_free(cache, ktest_leaks_much(cache));
  const Lines lines;
  kmem_cache_destroy(cache);
  EXPECT(lines.text().empty());
  EXPECT(trace_memory_used() == 0);
}

KTEST(trace_report_out_of_memory_has_the_top_of_all_traces) {
  kmem_cache *first = make_cache("ktest_first"), *second = make_cache("ktest_second");
  if (!first || !second) return;
  {
    const Lines lines;
    trace_report_out_of_memory();
    EXPECT(lines.text().empty());
  }
  EXPECT(trace_command(first, "start").ok() && trace_command(second, "start").ok());
  void* a = ktest_leaks_little(first);
  void* many[20];
  for (void*& object : many) object = ktest_leaks_much(second);
  {
    const Lines lines;
    trace_report_out_of_memory();
    lines.expect("2688 bytes in 21 allocations are live in 2 traces; most have:\n");
    lines.expect(
        "  2560 bytes in 20 allocations of ktest_second from stack\n    ktest_leaks_much+0x");
    lines.expect(
        "  128 bytes in 1 allocations of ktest_first from stack\n    ktest_leaks_little+0x");
    const size_t length = lines.text().size();
    trace_report_out_of_memory();
    EXPECT(lines.text().size() == length);  // no second report follows so soon
  }
  {
    const MutexGuard somebody_else(trace_control);
    const Lines lines;
    trace_report_out_of_memory();
    lines.expect("the owners of the memory cannot be listed now");
    kmem_cache_destroy(first);
    lines.expect("their records cannot be read now");
  }
  kmem_cache_free(first, a);
  EXPECT(trace_command(second, "stop\nreset").ok());
  {
    const Lines lines;
    trace_report_out_of_memory();
    EXPECT(!lines.has("ktest_second"));
  }
  for (void* object : many) kmem_cache_free(second, object);
  kmem_cache_destroy(second);
  EXPECT(trace_memory_used() == 0);
}

// Each line of a dump goes to the log.
KTEST(trace_print_is_the_dump) {
  kmem_cache* cache = make_cache("ktest_printed");
  if (!cache) return;
  EXPECT(trace_command(cache, "start").ok());
  void* many[120];
  // Long lists of marks make lines longer than lines of the log. The loop is not unrolled, so all
  // objects have the same stack.
  static constexpr const char* kMarks[] = {"mark\nmark", "mark"};
#pragma GCC unroll 1
  for (size_t i = 0; i < std::size(many); i++) {
    EXPECT(trace_command(cache, kMarks[i % 2]).ok());
    many[i] = ktest_leaks_much(cache);
  }
  EXPECT(trace_command(cache, "stop").ok());
  static char text[16384];
  size_t length = 0;
  Result<TraceDump*> dump = trace_dump_open(cache);
  EXPECT(dump.ok());
  if (dump) {
    length = trace_dump_read(*dump, text, sizeof(text), 0).take();
    trace_dump_close(*dump);
  }
  {
    const Lines lines;
    EXPECT(kmem_trace_print(cache) == 0);
    lines.expect(", marks 2-3,5-6,8-9,");
    // The texts differ only in ages and in lines that the log folds.
    const std::string_view printed = lines.text();
    EXPECT(lines.count("\t0xffff8") == 100 && lines.has("\t… 20 more\n"));
    EXPECT(printed.starts_with(std::string_view(text, length).substr(0, 200)));
    EXPECT(std::count(printed.begin(), printed.end(), '\n') >
           std::count(text, text + length, '\n'));
  }
  for (void* object : many) kmem_cache_free(cache, object);
  EXPECT(trace_command(cache, "reset").ok());
  kmem_cache_destroy(cache);
}
