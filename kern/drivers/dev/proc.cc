// #proc: processes as files, in the text formats of Linux's /proc (proc(5)), so that ps, pidof,
// kill, uptime and free can read them.
//
//   N/stat N/status N/cmdline N/comm   of process N; `self` is the caller
//   N/threads                          a line for each thread of process N
//   N/ctl                              takes a signal by name or number: kill, term, stop, cont,
//                                      int, … Only root and the owner of process N may write
//   uptime meminfo stat loadavg version
//
// A file's text is made when the file is opened. The nodes of a process are dynamic: their qid path
// contains the process (PID and generation) and the number of the file. A request for a process
// that has ended fails, even if another process has got its PID.

#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "drivers/dev/devices.h"
#include "intern/context.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/device.h"
#include "ns/path_buffer.h"
#include "pages.h"
#include "proc/process.h"

namespace {

enum File : uint64_t { kRoot, kUptime, kMeminfo, kStat, kLoadavg, kVersion };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, 0},        {"uptime", ABI_S_IFREG | 0444, 0},
    {"meminfo", ABI_S_IFREG | 0444, 0}, {"stat", ABI_S_IFREG | 0444, 0},
    {"loadavg", ABI_S_IFREG | 0444, 0}, {"version", ABI_S_IFREG | 0444, 0},
};

enum ProcessFile : uint8_t {
  kDirectory,
  kProcessStat,
  kStatus,
  kCommandLine,
  kComm,
  kThreads,
  kCtl,
  kProcessFiles
};
struct ProcessFileEntry {
  const char* name;
  uint32_t mode;
};
constexpr ProcessFileEntry kProcessTable[kProcessFiles] = {
    {"", ABI_S_IFDIR | 0555},        {"stat", ABI_S_IFREG | 0444}, {"status", ABI_S_IFREG | 0444},
    {"cmdline", ABI_S_IFREG | 0444}, {"comm", ABI_S_IFREG | 0444}, {"threads", ABI_S_IFREG | 0444},
    {"ctl", ABI_S_IFREG | 0200},
};

constexpr uint64_t kLinuxTickHz = 100;  // the unit in which programs expect times
uint64_t linux_ticks(Nanoseconds time) {
  return time.value / (1'000'000'000 / kLinuxTickHz);
}

struct SignalName {
  std::string_view name;
  int number;
};
constexpr SignalName kSignalNames[] = {
#define SIGNAL_NAME(name, number) {#name, number},
    ABI_SIGNALS(SIGNAL_NAME)
#undef SIGNAL_NAME
};

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

// Parses a signal's name or number: "kill", "KILL", "SIGKILL" or "9".
Result<int> parse_signal(std::string_view text) {
  if (uint64_t number; parse_number(text, 0, ABI_SIGNAL_COUNT - 1, &number))
    return static_cast<int>(number);
  for (const SignalName& signal : kSignalNames) {
    std::string_view word = text;
    if (word.size() > 3 && word.size() == signal.name.size() + 3) word.remove_prefix(3);
    if (std::equal(word.begin(), word.end(), signal.name.begin(), signal.name.end(),
                   [](char a, char b) { return upper(a) == b; }))
      return signal.number;
  }
  return fail(Errno::EINVAL,
              "ctl takes a signal: kill, term, stop, cont, int, hup, … or its number");
}

// `mapped`: process_mapped_bytes().
void print_process_stat(const ProcessInfo& info, uint64_t mapped, Text& text) {
  text.print("%u (%s) %c %u %u %u %u %d 0 0 0 0 0 %lu %lu 0 0 20 0 %u 0 %lu %lu %lu", info.pid,
             info.name, info.state, info.parent, info.group, info.session, info.terminal, -1,
             linux_ticks(info.user_time), linux_ticks(info.system_time), info.threads,
             linux_ticks(info.started), mapped, info.memory_bytes / kPageSize);
  for (int i = 0; i < 28; ++i) text.print(" 0");
  text.print("\n");
}

const char* state_name(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'T':
      return "stopped";
    case 'Z':
      return "zombie";
    default:
      return "?";
  }
}

void print_status(const ProcessInfo& info, uint64_t mapped, const ProcessProgram& program,
                  Text& text) {
  text.print("Name:\t%s\nState:\t%c (%s)\nTgid:\t%u\nPid:\t%u\nPPid:\t%u\n", info.name, info.state,
             state_name(info.state), info.pid, info.pid, info.parent);
  // Linux has a fourth id of each kind, for file access. Here it equals the effective id.
  const Credentials& who = info.who;
  text.print("Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nGroups:\t", who.real_uid, who.uid,
             who.saved_uid, who.uid, who.real_gid, who.gid, who.saved_gid, who.gid);
  for (uint32_t i = 0; i < who.group_count; ++i) text.print("%u ", who.groups[i]);
  text.print("\n");
  text.print("VmSize:\t%8lu kB\nVmRSS:\t%8lu kB\nThreads:\t%u\n", mapped / 1024,
             info.memory_bytes / 1024, info.threads);
  // Linux does not have the following lines.
  text.print("VmOwn:\t%8lu kB\n", info.own_bytes / 1024);
  text.print("Path:\t%s\nBuild:\t", program.path);
  for (uint8_t i = 0; i < program.build_id_size; ++i) text.print("%02x", program.build_id[i]);
  text.print("\n");
}

// Prints a line for each thread. A thread that begins or ends meanwhile may be missing.
void print_threads(ProcessId process, Text& text) {
  for (uint32_t id = 0;;) {
    Result<ThreadInfo> info = process_next_thread(process, id);
    if (!info) return;
    id = info->id;
    text.print("%u %c %lu %lu %s\n", id, info->state, linux_ticks(info->user_time),
               linux_ticks(info->system_time), info->name);
  }
}

void print_uptime(Text& text) {
  const uint64_t centiseconds = monotonic_now().value / 10'000'000;
  text.print("%lu.%02lu 0.00\n", centiseconds / 100, centiseconds % 100);
}

void print_meminfo(Text& text) {
  const MemoryTotals totals = memory_totals();
  text.print("MemTotal:       %8lu kB\nMemFree:        %8lu kB\nMemAvailable:   %8lu kB\n",
             totals.total / 1024, totals.free / 1024, totals.free / 1024);
  text.print(
      "Buffers:               0 kB\nCached:                0 kB\nSwapTotal:             0 "
      "kB\nSwapFree:              0 "
      "kB\n");
}

struct Totals {
  uint64_t processes = 0, running = 0;
  Nanoseconds user, system;
};
Totals all_processes() {
  Totals totals;
  for (uint32_t pid = process_next(0); pid; pid = process_next(pid)) {
    Result<ProcessInfo> info = process_info(pid);
    if (!info) continue;
    ++totals.processes;
    totals.running += info->state == 'R';
    totals.user = totals.user + info->user_time;
    totals.system = totals.system + info->system_time;
  }
  return totals;
}

// Prints the user and system time of all living processes as the CPUs' busy time. All other CPU
// time since boot counts as idle.
void print_stat(Text& text) {
  const Totals totals = all_processes();
  const uint64_t all = linux_ticks(monotonic_now()) * cpu_count();
  const uint64_t user = linux_ticks(totals.user), system = linux_ticks(totals.system);
  text.print("cpu  %lu 0 %lu %lu 0 0 0 0 0 0\n", user, system,
             all > user + system ? all - user - system : 0);
  text.print("btime %lu\nprocesses %lu\nprocs_running %lu\n", boot_wall_seconds(), totals.processes,
             totals.running);
}

class ProcDevice final : public TableDevice {
 public:
  constexpr ProcDevice() : TableDevice("proc", kTable) {}

  void close(Chan& chan) override { Text::destroy(static_cast<Text*>(chan.state)); }

  size_t longest_command(const Chan&) const override { return kMaxCommandText; }

 protected:
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    if (!chan.state) return Errno::EACCES;
    return text_of(chan).read(buffer, size, offset);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    if (!is_dynamic(chan) || file_of(chan) != kCtl) return Errno::EACCES;
    std::string_view text(buffer, size);
    CommandLine line, more;
    if (!next_command(text, line) || !line.rest.empty() || next_command(text, more))
      return fail(Errno::EINVAL, "ctl takes one signal, such as kill");
    const int signal = TRY(parse_signal(line.word));
    TRY(process_signal(process_of(chan), signal, chan.opener));
    return size;
  }
  Result<void> open_file(Chan& chan, uint32_t) override {
    if (is_dynamic(chan) && file_of(chan) == kCtl) return {};
    chan.state = TRY(Text::make([&](Text& text) { return fill(chan, text); }));
    return {};
  }
  Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan) override {
    if (directory.qid.path == kRoot) {
      const uint32_t pid = name == "self" ? current_task()->pid : TRY(pid_named(name));
      Result<ProcessInfo> info = info_in_path(pid);
      if (!info) return info.error();
      chan.qid = {.path = path_of(*info, kDirectory), .version = 0, .directory = true};
      return {};
    }
    for (uint8_t file = kDirectory + 1; file < kProcessFiles; ++file) {
      if (name != kProcessTable[file].name) continue;
      chan.qid = {.path = path_of(process_of(directory), file), .version = 0, .directory = false};
      return {};
    }
    return Errno::ENOENT;
  }
  Result<void> dynamic_stat(Chan& chan, abi_stat& stat) override {
    const ProcessInfo info = TRY(info_in_path(process_of(chan)));
    fill_stat(stat, chan.qid.path, kProcessTable[file_of(chan)].mode);
    stat.uid = info.who.uid;
    stat.gid = info.who.gid;
    return {};
  }
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override {
    // In the root, after process PID has been listed, the position is kFirstPid + PID. The next
    // call looks for a higher PID, so no process is skipped if another one ends between the calls.
    if (directory.qid.path != kRoot) return TableDevice::entry(directory, position, entry, name);
    if (position < kFirstPid && TableDevice::entry(directory, position, entry, name)) return {};
    auto pid = static_cast<uint32_t>(std::max(position, kFirstPid) - kFirstPid);
    while ((pid = process_next(pid))) {
      Result<ProcessInfo> info = process_info(pid);
      if (!info) continue;
      fill_stat(entry, path_of(*info, kDirectory), kProcessTable[kDirectory].mode);
      format(name, kMaxName + 1, "%u", pid);
      position = kFirstPid + pid;
      return {};
    }
    return Errno::ENOENT;
  }
  Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry,
                             char* name) override {
    if (!is_dynamic(directory) || index + 1 >= kProcessFiles) return Errno::ENOENT;
    const uint8_t file = static_cast<uint8_t>(index + 1);
    fill_stat(entry, path_of(process_of(directory), file), kProcessTable[file].mode);
    format(name, kMaxName + 1, "%s", kProcessTable[file].name);
    return {};
  }

 private:
  static constexpr uint64_t kFirstPid = 1024;

  // The parts of a qid path, from the highest bits down: generation, kDynamic, PID, file.
  static constexpr unsigned kPidShift = 4, kGenerationShift = 33;
  static_assert(kDynamic == uint64_t{1} << (kGenerationShift - 1));

  static uint64_t path_of(ProcessId id, uint8_t file) {
    return uint64_t{id.generation} << kGenerationShift | kDynamic | uint64_t{id.pid} << kPidShift |
           file;
  }
  static uint64_t path_of(const ProcessInfo& info, uint8_t file) {
    return path_of(ProcessId{info.pid, info.generation}, file);
  }
  static ProcessId process_of(const Chan& chan) {
    return {.pid = static_cast<uint32_t>(chan.qid.path) >> kPidShift,
            .generation = static_cast<uint32_t>(chan.qid.path >> kGenerationShift)};
  }
  static uint8_t file_of(const Chan& chan) { return chan.qid.path & 0xf; }
  static Text& text_of(Chan& chan) { return *static_cast<Text*>(chan.state); }

  static Result<uint32_t> pid_named(std::string_view name) {
    uint64_t pid;
    if (!parse_file_number(name, kMaxPid, &pid) || pid == 0) return Errno::ENOENT;
    return static_cast<uint32_t>(pid);
  }
  // Any error is ENOENT: in a path, a process that has ended is a missing file. `process` is a
  // ProcessId or a PID.
  static Result<ProcessInfo> info_in_path(auto process) {
    Result<ProcessInfo> info = process_info(process);
    if (!info) info = Errno::ENOENT;
    return info;
  }

  Result<void> fill(Chan& chan, Text& text) {
    if (is_dynamic(chan)) return fill_process(chan, text);
    switch (chan.qid.path) {
      case kUptime:
        print_uptime(text);
        break;
      case kMeminfo:
        print_meminfo(text);
        break;
      case kStat:
        print_stat(text);
        break;
      case kLoadavg: {
        const Totals totals = all_processes();
        text.print("0.00 0.00 0.00 %lu/%lu 0\n", totals.running, totals.processes);
        break;
      }
      case kVersion:
        text.print("Stele\n");
        break;
      default:
        return Errno::EACCES;
    }
    return {};
  }
  Result<void> fill_process(Chan& chan, Text& text) {
    const ProcessId id = process_of(chan);
    Result<ProcessInfo> found = process_info(id);
    if (!found) return found.error();
    const ProcessInfo& info = *found;
    switch (file_of(chan)) {
      case kProcessStat:
        print_process_stat(info, process_mapped_bytes(id), text);
        return {};
      case kStatus: {
        const auto program = TRY(Scratch<ProcessProgram>::make());
        TRY(process_program(id, *program));
        print_status(info, process_mapped_bytes(id), *program, text);
        return {};
      }
      case kComm:
        text.print("%s\n", info.name);
        return {};
      case kCommandLine: {
        PathBuffer line;
        TRY(line.fill());
        Result<size_t> length = process_command_line(id, line.path(), 512);
        if (length) text.append({line.path(), *length});
        return {};
      }
      case kThreads:
        print_threads(id, text);
        return {};
      default:
        return Errno::EACCES;
    }
  }
};

constinit ProcDevice device;

}  // namespace

void proc_device_init() {
  device_register(&device);
}
