#include "rest.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stele.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "execute.h"
#include "in_use.h"
#include "pools.h"
#include "tool/dump.h"
#include "tool/files.h"
#include "tool/processes.h"

namespace {

constexpr const char* kCtl = "#mem/kmemtrace/ctl";
// clean_up() repeats its kills at most kKills times, in about ten seconds. The pauses before the
// first kQuickKills repetitions are short.
constexpr unsigned kKills = 180, kQuickKills = 20;
constexpr unsigned kMostBinds = 1000;  // at most so many binds are removed at one path

// Returns the number that follows `key` at the beginning of a line of a file.
uint64_t number_in(const std::string& path, std::string_view key) {
  uint64_t number = 0;
  read_lines(path, [&](std::string_view line) {
    if (line.starts_with(key)) number = strtoull(line.data() + key.size(), nullptr, 10);
  });
  return number;
}

// Gives a command that the tracer must accept. Makes up to `attempts` attempts, for commands that
// may fail while the system is not yet at rest.
void command(const char* text, unsigned attempts = 1) {
  int error;
  do {
    error = write_command(kCtl, text);
  } while (error != 0 && --attempts > 0);
  if (error) throw std::runtime_error(std::string(kCtl) + ": " + text + ": " + strerror(error));
}

// Gives a command and ignores its error: a program of root may have given it before.
void try_command(const char* text) {
  write_command(kCtl, text);
}

// Bytes of leakfuzz's own memory, without pages of the page cache. leakfuzz stores programs and the
// addresses of kernel code that they reach (execute.h), so its memory grows.
uint64_t own_bytes() {
  return number_in("/proc/self/status", "VmOwn:") << 10;
}

// Bytes of the page tables of kernel stacks. The kernel never frees them.
uint64_t table_bytes() {
  return number_in("#mem/free", "kernel_tables ");
}

// Bytes of the page cache. They change when programs, among them this one, map or run files.
uint64_t file_bytes() {
  return number_in("#mem/free", "file_pages ");
}
bool is_of_page_cache(std::string_view name) {
  return name == "cached_page" || name == "cached_file";
}

// Removes all binds at `path`. Does nothing if a program has left a symbolic link there, because
// the link's target may have binds of the system.
void uncover(const std::string& path) {
  for (unsigned i = 0; i < kMostBinds; i++) {
    struct stat at;
    if (lstat(path.c_str(), &at) == 0 && S_ISLNK(at.st_mode)) return;
    if (ns_unmount(path.c_str()) != 0) return;
  }
}

// Removes all files below `path`, and all binds on them. Stores in `in_use` the files that are in
// use.
void empty(const std::string& path, std::vector<std::string>& in_use) {
  DIR* const directory = opendir(path.c_str());
  if (!directory) return;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory)) names.emplace_back(entry->d_name);
  closedir(directory);
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    const std::string inside = path + "/" + name;
    uncover(inside);  // first of all: a directory can be bound on one of its own entries
    struct stat at;
    if (lstat(inside.c_str(), &at) == 0 && S_ISREG(at.st_mode) && is_in_use(inside))
      in_use.push_back(inside);
    if (unlink(inside.c_str()) == 0) continue;
    chmod(inside.c_str(), 0700);
    empty(inside, in_use);
    rmdir(inside.c_str());
  }
}

// Collects the equations that do not hold.
class Equations {
 public:
  void check(const Dump::Source& trace, const char* equation, uint64_t left, uint64_t right) {
    if (left == right) return;
    broken_.push_back(trace.name + ": " + equation + ": " + std::to_string(left) + " is not " +
                      std::to_string(right));
  }
  std::vector<std::string> broken() { return std::move(broken_); }

 private:
  std::vector<std::string> broken_;
};

}  // namespace

Rest::Rest() {
  for (const uint32_t pid : process_ids()) known_[static_cast<int>(pid)] = true;
  clean_up();
}

int Rest::clean_up() {
  for (unsigned attempt = 0;; attempt++) {
    int left = 0;
    for (const uint32_t id : process_ids()) {
      const int pid = static_cast<int>(id);
      if (is_known(pid) || pid == getpid()) continue;
      if (kill(pid, SIGKILL) == 0) left = pid;
    }
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    if (left == 0) break;
    if (attempt == kKills) return left;
    sleep_milliseconds(attempt < kQuickKills ? 2 : 60);
  }
  // Removes the programs' binds before the files, because a bind can hide files and other binds.
  // Programs bind only at the paths of pool T (pools.h).
  for (size_t i = 0; i < pool_size('T'); i++) uncover(std::string(pool_path('T', i)));
  in_use_.clear();
  empty("#tmp", in_use_);
  mkdir("/tmp/fuzz", 0777);
  chmod("/tmp/fuzz", 0777);
  return 0;
}

void Rest::start_traces() {
  reset_traces();
  command("start\n");
  command("refs\n");
}

void Rest::reset_traces() {
  try_command("stop\n");
  try_command("reset\n");
}

std::vector<std::string> Rest::broken_identities() {
  try_command("stop\n");
  Equations equations;
  const Dump dump = Dump::read();
  for (const Dump::Source& trace : dump.sources()) {
    const abi_tracedump_source& source = trace.header;
    equations.check(trace, "seen = recorded + dropped + filtered", source.seen,
                    source.recorded + source.dropped + source.filtered);
    equations.check(trace, "recorded = freed + cleared + live", source.recorded,
                    source.freed + source.cleared + source.live);
    uint64_t bytes = 0;
    for (const abi_tracedump_record& record : trace.records) bytes += record.size;
    equations.check(trace, "live = number of records", source.live, trace.records.size());
    equations.check(trace, "bytes = sum of the records", source.bytes, bytes);
  }
  return equations.broken();
}

std::vector<std::string> Rest::broken_boot_traces() {
  Counts alive = counts();
  Equations equations;
  const Dump dump = Dump::read();
  for (const Dump::Source& trace : dump.sources()) {
    const abi_tracedump_source& source = trace.header;
    if (source.kind != ABI_TRACEDUMP_REFERENCES || source.state != ABI_TRACEDUMP_RUNNING) continue;
    if (source.dropped || source.filtered || source.cleared) continue;
    equations.check(trace, "from boot on, records = live references", source.live,
                    alive[trace.name]);
    equations.check(trace, "from boot on, each reference that is put has a record",
                    source.unmatched, 0);
  }
  return equations.broken();
}

Counts Rest::counts() {
  command("settle\n", 3);
  Counts counts;
  uint64_t pages = 0;
  // Not by read_kmemstat(): its memory would grow between the kernel's count of pages and
  // own_bytes().
  read_lines("#mem/kmemstat", [&](std::string_view view) {
    const std::string line(view);
    char name[64], type, traced[16] = "";
    unsigned long size, total, allocated, live;
    if (sscanf(line.c_str(), "%63s %c %lu %lu %lu %lu %*u %*u %15s", name, &type, &size, &total,
               &allocated, &live, traced) < 6)
      return;
    if (is_of_page_cache(name)) return;
    if ((type == 'S' && strcmp(traced, "never") != 0) || type == 'R') counts[name] = live;
    if (type == 'A' && strcmp(name, "base") != 0 && strcmp(name, "page") != 0) counts[name] = live;
    if (type == 'A' && strcmp(name, "page") == 0) pages = allocated;
  });
  counts["bytes in pages"] = pages - own_bytes() - table_bytes() - file_bytes();
  return counts;
}

std::vector<std::string> risen(const Counts& before, const Counts& after) {
  std::vector<std::string> lines;
  for (const auto& [name, now] : after) {
    const auto found = before.find(name);
    const uint64_t was = found == before.end() ? 0 : found->second;
    if (now > was)
      lines.push_back(name + " was " + std::to_string(was) + ", is " + std::to_string(now));
  }
  return lines;
}
