/* Counts live objects, and checks that the counters and records of a dump agree. */
#include <abi/tracedump.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

/* ---- Dumps. */

enum { SOURCES_MAX = 512 };

struct reader {
  int fd;
  bool abandon; /* true: stops at a random point of the dump */
  bool ended;   /* the file has ended, or the reader has stopped */
};

/* Reads the next `size` bytes to `to`, or skips them if `to` is NULL. */
static bool take(struct reader* reader, void* to, uint64_t size) {
  static char thrown[4096];
  while (size > 0) {
    if (reader->abandon && random_one_in(200)) reader->ended = true;
    if (reader->ended) return false;
    size_t piece = size < sizeof thrown ? size : sizeof thrown;
    ssize_t n = read(reader->fd, to ? to : thrown, piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) failed("a dump ends too early");
      reader->ended = true;
      return false;
    }
    if (to) to = (char*)to + n;
    size -= (uint64_t)n;
  }
  return true;
}

/* Reads an item of `size` bytes. Stores the first `want` bytes to `to` and skips the rest, which
 * are fields that a later kernel may have added. */
static bool take_item(struct reader* reader, void* to, size_t want, uint64_t size) {
  if (size < want) {
    failed("an item of a dump is too short");
    return false;
  }
  return take(reader, to, want) && take(reader, NULL, size - want);
}

static struct abi_tracedump_source sources[SOURCES_MAX];

static void check_source(uint64_t i, const struct abi_tracedump_source* s) {
  if (s->seen != s->recorded + s->dropped + s->filtered)
    failed("dump, source %lu: seen %lu is not recorded %lu + dropped %lu + filtered %lu",
           (unsigned long)i, (unsigned long)s->seen, (unsigned long)s->recorded,
           (unsigned long)s->dropped, (unsigned long)s->filtered);
  if (s->recorded != s->freed + s->cleared + s->live)
    failed("dump, source %lu: recorded %lu is not freed %lu + cleared %lu + live %lu",
           (unsigned long)i, (unsigned long)s->recorded, (unsigned long)s->freed,
           (unsigned long)s->cleared, (unsigned long)s->live);
}

static bool take_records(struct reader* reader, const struct abi_tracedump_section* section,
                         uint64_t source_count) {
  uint64_t bytes = 0, left = section->size;
  for (uint64_t i = 0; i < section->count; i++, left -= section->item_size) {
    struct abi_tracedump_record record;
    if (!take_item(reader, &record, sizeof record, section->item_size)) return false;
    bytes += record.size;
  }
  if (section->source < source_count && section->source < SOURCES_MAX) {
    const struct abi_tracedump_source* source = &sources[section->source];
    if (source->live != section->count || source->bytes != bytes)
      failed("dump, source %u: %lu records of %lu bytes, but live %lu, bytes %lu", section->source,
             (unsigned long)section->count, (unsigned long)bytes, (unsigned long)source->live,
             (unsigned long)source->bytes);
  }
  return take(reader, NULL, left);
}

static bool take_sources(struct reader* reader, const struct abi_tracedump_section* section) {
  uint64_t left = section->size;
  for (uint64_t i = 0; i < section->count; i++, left -= section->item_size) {
    struct abi_tracedump_source source;
    if (!take_item(reader, &source, sizeof source, section->item_size)) return false;
    check_source(i, &source);
    if (i < SOURCES_MAX) sources[i] = source;
  }
  return take(reader, NULL, left);
}

bool check_dump(const char* path, bool abandon) {
  struct reader reader = {.fd = open(path, O_RDONLY | O_CLOEXEC), .abandon = abandon};
  if (reader.fd < 0) return false;
  struct abi_tracedump_header header;
  uint64_t source_count = 0;
  bool more = take(&reader, &header, sizeof header);
  if (more && memcmp(header.magic, ABI_TRACEDUMP_MAGIC, sizeof header.magic) != 0) {
    failed("%s is no dump", path);
    more = false;
  }
  if (more) more = take(&reader, NULL, header.header_size - sizeof header);
  for (uint32_t i = 0; more && i < header.sections; i++) {
    struct abi_tracedump_section section;
    more = take_item(&reader, &section, sizeof section, header.section_header_size);
    if (!more) break;
    if (section.tag == ABI_TRACEDUMP_SOURCES) {
      source_count = section.count;
      more = take_sources(&reader, &section);
    } else if (section.tag == ABI_TRACEDUMP_RECORDS) {
      more = take_records(&reader, &section, source_count);
    } else {
      more = take(&reader, NULL, section.size);
    }
  }
  close(reader.fd);
  return true;
}

/* ---- Live objects. */

enum { TABLE = 48 << 10, ROWS_MAX = 256, FIELD = 40 };

static char tables[2][TABLE];
/* Numbers of pages that the comparison leaves out: page tables of former kernel stacks, which the
 * kernel never frees, and this program's own pages, because its heap grows now and then. Pages of
 * the page cache that this program maps are not its own. */
static long own_pages[2];
/* Numbers of pages in the page cache. */
static long file_pages[2];

/* Returns the number that follows `key` in a small file, divided by `unit`; 0 if the file
 * does not have `key`; -1 if the file cannot be read, for example for lack of memory. */
static long read_pages(const char* path, const char* key, long unit) {
  static char text[1024];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n < 0) return -1;
  text[n] = '\0';
  const char* line = strstr(text, key);
  return line ? atol(line + strlen(key)) / unit : 0;
}

static bool take_own_pages(int which) {
  long tables = read_pages("#mem/free", "kernel_tables ", 4096);
  long program = read_pages("/proc/self/status", "VmOwn:", 4);
  own_pages[which] = tables + program;
  file_pages[which] = read_pages("#mem/free", "file_pages ", 4096);
  return tables >= 0 && program >= 0 && file_pages[which] >= 0;
}

bool take_counts(int which) {
  if (!take_own_pages(which)) return false;
  size_t length = 0;
  int fd = open("#mem/kmemstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  for (ssize_t n;
       length < TABLE - 1 && (n = read(fd, tables[which] + length, TABLE - 1 - length)) != 0;) {
    if (n < 0) {
      close(fd);
      return false;
    }
    length += (size_t)n;
  }
  tables[which][length] = '\0';
  close(fd);
  return true;
}

/* Copies the first word of the line at `line` to `first`, and the word in `column`, counted from 0,
 * to `wanted`. Returns the start of the next line. */
static const char* words_of(const char* line, unsigned column, char* first, char* wanted) {
  *first = *wanted = '\0';
  for (unsigned word = 0; *line && *line != '\n'; word++) {
    while (*line == ' ') line++;
    size_t length = strcspn(line, " \n");
    char* to = word == 0 ? first : word == column ? wanted : NULL;
    if (to) {
      size_t kept = length < FIELD - 1 ? length : FIELD - 1;
      memcpy(to, line, kept);
      to[kept] = '\0';
    }
    line += length;
  }
  return *line ? line + 1 : line;
}

/* Returns the number of the column LIVE, counted from 0, in the table's first line; 0 if there is
 * no such column. */
static unsigned live_column(const char* table) {
  char first[FIELD], word[FIELD];
  for (unsigned column = 1; column < 20; column++) {
    words_of(table, column, first, word);
    if (strcmp(word, "LIVE") == 0) return column;
  }
  return 0;
}

/* Returns the number of live objects of `name`; -1 if the table does not list `name`. */
static long live_of(const char* table, unsigned column, const char* name) {
  char first[FIELD], live[FIELD];
  while (*table) {
    table = words_of(table, column, first, live);
    if (strcmp(first, name) == 0) return atol(live);
  }
  return -1;
}

/* True for the allocator's own caches except kmem_cache, and for the quantum caches of pages. In
 * most of these caches, the number of live objects depends also on how many free objects the
 * allocator keeps. */
static bool is_the_allocators(const char* name) {
  return (strncmp(name, "kmem_", 5) == 0 && strcmp(name, "kmem_cache") != 0) ||
         strncmp(name, "page_", 5) == 0;
}

static bool is_of_page_cache(const char* name) {
  return strcmp(name, "cached_page") == 0 || strcmp(name, "cached_file") == 0;
}

/* Returns the unexplained growth of the page arena between the counts, in pages: the growth of the
 * arena minus the growth of own_pages and of file_pages. */
static long odd_pages(long before, long after) {
  return after - before - (own_pages[1] - own_pages[0]) - (file_pages[1] - file_pages[0]);
}

unsigned compare_counts(void) {
  unsigned column = live_column(tables[0]), differences = 0, rows = 0;
  if (column == 0) {
    failed("#mem/kmemstat has no column LIVE");
    return 1;
  }
  char first[FIELD], live[FIELD];
  for (const char* line = tables[1]; *line;) {
    line = words_of(line, column, first, live);
    long before = live_of(tables[0], column, first);
    if (strcmp(first, "page") == 0 && odd_pages(before, atol(live)) == 0) before = atol(live);
    rows++;
    if (strcmp(first, "NAME") == 0 || is_the_allocators(first) || is_of_page_cache(first) ||
        before == atol(live))
      continue;
    fprintf(stderr, "stress: %s had %ld live objects and has %s\n", first, before, live);
    if (strcmp(first, "page") == 0)
      fprintf(stderr, "stress: of the pages, %ld and %ld are its own, %ld and %ld those of files\n",
              own_pages[0], own_pages[1], file_pages[0], file_pages[1]);
    differences++;
  }
  printf("%u caches and arenas compared\n", rows - 1);
  return differences;
}
