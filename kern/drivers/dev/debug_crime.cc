// #debug/crime: misuse of objects, for the tests of run-time checking.
//
//   overrun CACHE          writes the byte after an object, then frees it
//   usefree CACHE          frees an object and writes to it
//   doublefree CACHE       frees an object twice
//   wrongfree CACHE OTHER  frees an object of CACHE to OTHER; the object stays allocated
//   overflow               adds one to the largest int
//
// The first three commands require that CACHE is checked at run time, because the system would not
// survive them otherwise. wrongfree requires that CACHE or OTHER is checked. With
// KernelAddressSanitizer the first three commands take any cache. overflow requires
// UndefinedBehaviorSanitizer. Both sanitizers end the system when they report. Tests expect the
// names of the crime_… functions in reports.
#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_crime.h"

#include <climits>

#include "core/errstr.h"
#include "core/log.h"
#include "lib/optimizer.h"
#include "ns/device.h"
#include "slab.h"
#include "trace/trace.h"

namespace {

constexpr const char* kSyntax =
    "overrun CACHE, usefree CACHE, doublefree CACHE, wrongfree CACHE OTHER or overflow";

#ifdef CONFIG_KASAN
constexpr bool kKasan = true;
#else
constexpr bool kKasan = false;
#endif
#ifdef CONFIG_UBSAN
constexpr bool kUbsan = true;
#else
constexpr bool kUbsan = false;
#endif

// A cache that was found by name; holds a reference.
class Named {
 public:
  Named() = default;
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;
  ~Named() {
    if (source_) source_.release();
  }

  Result<void> find(std::string_view name) {
    source_ = TraceSource::find(name);
    if (cache()) return {};
    return fail(Errno::EINVAL, "no cache is called \"%.*s\": cat '#mem/kmemstat' names them",
                static_cast<int>(name.size() < kShown ? name.size() : kShown), name.data());
  }
  kmem_cache* cache() const { return source_.cache(); }
  bool is_checked() const {
    struct kmem_cache_stats stats;
    kmem_cache_stats(cache(), &stats);
    return stats.checked != 0;
  }

 private:
  static constexpr size_t kShown = 40;
  TraceSource source_;
};

struct Crime {
  void (*commit)(kmem_cache* cache, kmem_cache* other, char* object);
  Named cache, other;
};

}  // namespace

[[gnu::noinline, gnu::noclone]] static char* crime_alloc(kmem_cache* cache) {
  return static_cast<char*>(kmem_cache_alloc(cache, KM_SLEEP));
}
[[gnu::noinline, gnu::noclone, gnu::no_icf]] static void crime_free(kmem_cache* cache,
                                                                    char* object) {
  kmem_cache_free(cache, object);
}
[[gnu::noinline, gnu::noclone, gnu::no_icf]] static void crime_free_again(kmem_cache* cache,
                                                                          char* object) {
  kmem_cache_free(cache, object);
}

static void crime_overrun(kmem_cache* cache, kmem_cache*, char* object) {
  object[kmem_cache_object_size(cache)] = '!';
  crime_free(cache, object);
}
static void crime_usefree(kmem_cache* cache, kmem_cache*, char* object) {
  crime_free(cache, object);
  object[kmem_cache_object_size(cache) / 2] = '!';
}
static void crime_doublefree(kmem_cache* cache, kmem_cache*, char* object) {
  crime_free(cache, object);
  crime_free_again(cache, object);
}
static void crime_overflow(kmem_cache*, kmem_cache*, char*) {
  int number = INT_MAX;
  hide_value(number);
  number++;
  klog("#debug/crime: %d comes after the largest int", number);
}
static void crime_wrongfree(kmem_cache*, kmem_cache* other, char* object) {
  crime_free(other, object);
}

namespace {

Result<void> parse(const CommandLine& line, Crime& crime) {
  std::string_view rest = line.rest;
  if (line.word == "overflow") {
    if (!rest.empty()) return fail(Errno::EINVAL, "expected %s", kSyntax);
    if (!kUbsan)
      return fail(Errno::EINVAL, "this kernel has no UndefinedBehaviorSanitizer: VARIANT=sanitize");
    crime.commit = crime_overflow;
    return {};
  }
  const std::string_view name = next_word(rest);
  if (line.word == "overrun") {
    crime.commit = crime_overrun;
  } else if (line.word == "usefree") {
    crime.commit = crime_usefree;
  } else if (line.word == "doublefree") {
    crime.commit = crime_doublefree;
  } else if (line.word == "wrongfree") {
    crime.commit = crime_wrongfree;
  } else {
    return fail(Errno::EINVAL, "expected %s", kSyntax);
  }
  const bool two = crime.commit == crime_wrongfree;
  const std::string_view other = two ? next_word(rest) : name;
  if (other.empty() || !rest.empty()) return fail(Errno::EINVAL, "expected %s", kSyntax);
  TRY(crime.cache.find(name));
  TRY(crime.other.find(other));
  if (two && crime.cache.cache() == crime.other.cache()) {
    return fail(Errno::EINVAL, "%s is the right cache for its own objects",
                kmem_cache_name(crime.cache.cache()));
  }
  if ((kKasan && !two) || crime.cache.is_checked() || crime.other.is_checked()) return {};
  return fail(Errno::EINVAL, "%s is not checked: echo check > #mem/kmemtrace/%s first",
              kmem_cache_name(crime.cache.cache()), kmem_cache_name(crime.cache.cache()));
}

}  // namespace

Result<void> debug_crime_write(std::string_view text) {
  TRY(check_command_text(text, kSyntax));
  CommandLine line;
  bool any = false;
  for (std::string_view rest = text; next_command(rest, line); any = true) {
    Crime crime;
    TRY(parse(line, crime));
  }
  if (!any) return fail(Errno::EINVAL, "expected %s", kSyntax);
  while (next_command(text, line)) {
    Crime crime;
    TRY(parse(line, crime));
    char* const object = crime.cache.cache() ? crime_alloc(crime.cache.cache()) : nullptr;
    if (crime.cache.cache() && !object) return Errno::ENOMEM;
    crime.commit(crime.cache.cache(), crime.other.cache(), object);
  }
  return {};
}

#endif  // CONFIG_DEBUG_DEVICE
