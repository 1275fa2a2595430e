/* Writes and compares the patterns of checked slabs, and logs reports of errors. The theory is in
 * slab_check.c. */

#include "slab_check_impl.h"

enum {
  /* Reports that are logged for a cache after its checking is switched on. Further reports are only
   * counted. */
  REPORTS_SHOWN = 100,
  DUMP_WIDTH = 16, /* bytes in a line */
  DUMP_LINES = 4,
};

/* ---- Patterns. They repeat every four bytes, aligned to multiples of four. */

static unsigned char pattern_byte(uint32_t pattern, const void* at) {
  return (unsigned char)(pattern >> 8 * ((uintptr_t)at & 3));
}

static uint64_t pattern_word(uint32_t pattern) {
  return (uint64_t)pattern << 32 | pattern;
}

static bool whole_word(const unsigned char* at, const unsigned char* end) {
  return (uintptr_t)at % sizeof(uint64_t) == 0 && (size_t)(end - at) >= sizeof(uint64_t);
}

void slab_check_fill(void* from, void* to, uint32_t pattern) {
  const uint64_t word = pattern_word(pattern);
  for (unsigned char *at = (unsigned char*)from, *const end = (unsigned char*)to; at < end;) {
    if (whole_word(at, end)) {
      *(uint64_t*)at = word;
      at += sizeof(word);
    } else {
      *at = pattern_byte(pattern, at);
      at++;
    }
  }
}

bool slab_check_find_damage(const void* from, const void* to, uint32_t pattern,
                            struct damage* damage) {
  const uint64_t word = pattern_word(pattern);
  const unsigned char *at = (const unsigned char*)from, *end = (const unsigned char*)to;
  for (;;) {
    if (at >= end) return false;
    if (whole_word(at, end) && *(const uint64_t*)at == word)
      at += sizeof(word);
    else if (*at == pattern_byte(pattern, at))
      at++;
    else
      break;
  }
  while (end[-1] == pattern_byte(pattern, end - 1)) end--;
  *damage = (struct damage){at, end - 1, pattern};
  return true;
}

/* ---- Reports. */

static const char* const verdict_names[] = {
    [DOUBLE_FREE] = "double free",
    [WRONG_CACHE] = "free to the wrong cache",
    [NO_OBJECT] = "free of an address that is not an object",
    [WRITE_PAST_END] = "write past the end of an object",
    [WRITE_BEFORE] = "write before the start of an object",
    [WRITE_AFTER_FREE] = "write to a free object",
    [NO_AUDIT] = "write far past the end of an object, over its audit",
};

static uint64_t reports_ever;

/* Logs one line with the DUMP_WIDTH bytes at `line`. With `wanted`, logs one line with the bytes
 * that were expected there, but only those in the damaged range. */
static void dump_line(const char* prefix, const struct report* report, const unsigned char* line,
                      bool wanted) {
  static const char digits[] = "0123456789abcdef";
  char hex[3 * DUMP_WIDTH + 1], text[DUMP_WIDTH + 1];
  for (int i = 0; i < DUMP_WIDTH; i++) {
    const unsigned char* const at = line + i;
    const unsigned char byte = wanted ? pattern_byte(report->damage.pattern, at) : *at;
    const bool shown = !wanted || (at >= report->damage.first && at <= report->damage.last);
    hex[3 * i] = shown ? digits[byte >> 4] : ' ';
    hex[3 * i + 1] = shown ? digits[byte & 15] : ' ';
    hex[3 * i + 2] = ' ';
    text[i] = (char)(!shown ? ' ' : byte >= ' ' && byte <= '~' ? byte : '.');
  }
  hex[sizeof(hex) - 1] = text[DUMP_WIDTH] = '\0';
  if (wanted)
    slab_os_log("%s   wanted: %s|%s|", prefix, hex, text);
  else
    slab_os_log("%s   %+6ld: %s|%s|", prefix, (long)((const char*)line - report->object), hex,
                text);
}

static void log_damage(const char* prefix, const struct report* report) {
  const struct damage* const damage = &report->damage;
  const long first = (const char*)damage->first - report->object,
             last = (const char*)damage->last - report->object;
  if (first == last)
    slab_os_log("%s byte %+ld has changed:", prefix, first);
  else
    slab_os_log("%s bytes %+ld to %+ld have changed:", prefix, first, last);
  const unsigned char* line = damage->first - (uintptr_t)damage->first % DUMP_WIDTH;
  for (int i = 0; i < DUMP_LINES && line <= damage->last; i++, line += DUMP_WIDTH) {
    dump_line(prefix, report, line, false);
    dump_line(prefix, report, line, true);
  }
}

/* Makes the prefix "slab check #NUMBER:". */
static void make_prefix(char* prefix, uint64_t number) {
  for (const char* c = "slab check #"; *c; c++) *prefix++ = *c;
  uint64_t power = 1;
  while (number / power >= 10) power *= 10;
  for (; power > 0; power /= 10) *prefix++ = (char)('0' + number / power % 10);
  *prefix++ = ':';
  *prefix = '\0';
}

static void log_report(const struct report* report, uint64_t number) {
  char prefix[40];
  make_prefix(prefix, number);
  const char* const name = report->cache->name;
  const struct audit* const audit = report->audit;
  slab_os_log("%s %s, %s", prefix, verdict_names[report->verdict], name);
  if (report->verdict == NO_OBJECT && report->around)
    slab_os_log("%s %p is %lu bytes into the object %p of %s", prefix, (const void*)report->object,
                (unsigned long)(report->object - report->around), (const void*)report->around,
                name);
  else if (report->verdict == NO_OBJECT)
    slab_os_log("%s %p is given to %s, which has no object there", prefix,
                (const void*)report->object, report->given->name);
  else if (audit && report->verdict != NO_AUDIT)
    slab_os_log("%s object %p of %s: %zu bytes, %zu requested", prefix, (const void*)report->object,
                name, report->cache->object_size, audit->requested);
  else
    slab_os_log("%s object %p of %s: %zu bytes%s", prefix, (const void*)report->object, name,
                report->cache->object_size,
                audit ? "" : ", not checked: who allocated it is not known");
  if (report->verdict == WRONG_CACHE)
    slab_os_log("%s it is given to %s", prefix, report->given->name);
  if (report->damage.first) log_damage(prefix, report);
  if (report->verdict == NO_AUDIT) slab_os_log("%s what follows may be overwritten too", prefix);
  if (audit) {
    slab_os_log_place(prefix, "allocated", &audit->allocated);
    if (report->verdict == WRITE_AFTER_FREE || report->verdict == DOUBLE_FREE)
      slab_os_log_place(prefix, "freed", &audit->freed);
  }
  slab_os_log_place(prefix, report->found, &report->place);
  slab_os_log("%s %s", prefix,
              report->verdict == WRONG_CACHE ? "the object stays allocated"
              : report->verdict == NO_OBJECT ? "nothing is freed"
              : audit                        ? "the object is not reused"
                                             : "the object stays free");
}

void slab_check_report(struct report* report, const char* found, const void* frame) {
  struct kmem_checks* const checks = &report->cache->checks;
  const uint64_t number = __atomic_add_fetch(&reports_ever, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&checks->reports, 1, __ATOMIC_RELAXED);
  const uint64_t shown = __atomic_fetch_add(&checks->shown, 1, __ATOMIC_RELAXED);
  if (shown == REPORTS_SHOWN)
    slab_os_log("slab check: further reports of %s are only counted, until it is switched on again",
                report->cache->name);
  if (shown < REPORTS_SHOWN) {
    report->found = found;
    slab_os_note_place(&report->place, frame);
    log_report(report, number);
  }
  if (slab_os_check_panics())
    slab_os_panic("%s, %s: see the report above", verdict_names[report->verdict],
                  report->cache->name);
}

void kmem_log_object(const void* address) {
  const struct kmem_slab* const slab = slab_os_page_slab(address);
  if (!slab) {
    slab_os_log("  %p is in no slab", address);
    return;
  }
  const struct kmem_cache* const cache = slab->cache;
  const size_t stride = slab->checked ? cache->checks.stride : cache->stride;
  const uint32_t objects = slab->checked ? cache->checks.objects : cache->objects_per_slab;
  const size_t offset = (size_t)((const char*)address - slab->base);
  if (offset / stride >= objects) {
    slab_os_log("  %p is in a slab of %s, in no object", address, cache->name);
    return;
  }
  const char* const object = slab->base + offset / stride * stride;
  slab_os_log("  %p is %lu bytes into the object %p of %s, which has %lu bytes", address,
              (unsigned long)(offset % stride), (const void*)object, cache->name,
              (unsigned long)cache->object_size);
  if (!slab->checked) {
    slab_os_log("  `check=%s` on the kernel command line would say who allocated and freed it",
                cache->name);
    return;
  }
  slab_os_log_place(" ", "allocated", &audit_of(cache, object)->allocated);
  slab_os_log_place(" ", "freed", &audit_of(cache, object)->freed);
}
