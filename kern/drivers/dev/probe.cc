// #probe: sessions that record calls of functions; docs/probes.md is the manual.
//
//   functions   the kernel functions that can be probed
//   clone       an open makes a session; the descriptor that it returns is the session's ctl
//   N/ctl N/counts N/events N/outstanding   the files of session N
//
// A session lives as long as one of its files is open, in any process. An open file holds a
// reference to the session. A channel that is not open holds no reference, and looks its session up
// by number at open. A session number is reused only after 2^32 - 1 sessions. Closing the last file
// removes the probes and frees the memory; this also happens when the process that has the file
// open is killed.
#include <algorithm>
#include <array>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/probe_text.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/quoted.h"
#include "lib/string.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "proc/process_impl.h"
#include "sched/task.h"
#include "trace/dump/open_binary.h"

namespace {

enum File : uint64_t { kRoot, kFunctions, kClone };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, kRoot},
    {"functions", ABI_S_IFREG | 0400, kRoot},
    {"clone", ABI_S_IFREG | 0600, kRoot},
};

// Files of a session.
enum class SessionFile : uint64_t { kDirectory, kCtl, kCounts, kEvents, kOutstanding };
struct SessionFileEntry {
  const char* name;
  uint32_t mode;
};
constexpr SessionFileEntry kSessionFiles[] = {
    {"", ABI_S_IFDIR | 0500},
    {"ctl", ABI_S_IFREG | 0600},
    {"counts", ABI_S_IFREG | 0400},
    {"events", ABI_S_IFREG | 0400},
    {"outstanding", ABI_S_IFREG | 0400},
};
constexpr uint64_t kFilesOfSession = 8;  // number of qid paths reserved for each session
static_assert(std::size(kSessionFiles) <= kFilesOfSession);

constexpr size_t kMaxCommand = Device::kLargestCommand;

// --- Living sessions.

struct Living {
  ProbeSession* session = nullptr;
  uint32_t files = 0;  // number of open files of the session
};
constexpr size_t kMaxSessions = 64;
constinit Mutex living_mutex{LockRank::kDeviceMutex};
constinit std::array<Living, kMaxSessions> living GUARDED_BY(living_mutex);
constinit uint32_t next_number GUARDED_BY(living_mutex) = 1;

Living* find_living(uint32_t number) REQUIRES(living_mutex) {
  for (Living& one : living) {
    if (one.session && one.session->number() == number) return &one;
  }
  return nullptr;
}

// Gives the session a number, and takes a reference to it for the caller. False if there are too
// many sessions.
bool add_session(ProbeSession* session) {
  const MutexGuard guard(living_mutex);
  for (Living& one : living) {
    if (one.session) continue;
    session->set_number(next_number);
    next_number = next_number == UINT32_MAX ? 1 : next_number + 1;
    one = {.session = session, .files = 1};
    return true;
  }
  return false;
}

// Makes a session and takes a reference to it for the caller. ENOMEM, ENOSPC. The session is made
// and destroyed without living_mutex, because the end of a session takes locks of higher ranks.
Result<ProbeSession*> make_session() {
  ProbeSession* const session = TRY(ProbeSession::create());
  if (add_session(session)) return session;
  ProbeSession::destroy(session);
  return fail(Errno::ENOSPC, "all %zu sessions are in use: close one", kMaxSessions);
}

// Finds the session with this number and takes a reference to it for the caller. ENOENT.
Result<ProbeSession*> hold_session(uint32_t number) {
  const MutexGuard guard(living_mutex);
  Living* const one = find_living(number);
  if (!one) return Errno::ENOENT;
  one->files++;
  return one->session;
}

void release_session(ProbeSession* session) {
  {
    const MutexGuard guard(living_mutex);
    Living& one = *find_living(session->number());
    if (--one.files > 0) return;
    one.session = nullptr;
  }
  ProbeSession::destroy(session);
}

// --- Open files.

struct OpenFile {
  ProbeSession* session = nullptr;
  // Set only for the files `counts` and `outstanding`, by open_session_file().
  ProbeCountsText* counts = nullptr;
  TraceBinaryDump* outstanding = nullptr;
  // Serialises readers of one open file `counts`, `events` or `ctl`. For `events`,
  // line[begin..end-1] has not been read yet. For `ctl`, `begin` is the number of bytes read so
  // far.
  Mutex reading{LockRank::kTraceReader};
  size_t begin = 0, end = 0;
  char line[kProbeEventLine + 32];
};

// Reads lines of events until the buffer is full or no event is left. The last line may be cut; the
// next call then continues the line. Returns the number of bytes read.
size_t take_lines(OpenFile& open, char* buffer, size_t size) {
  const MutexGuard guard(open.reading);
  size_t done = 0;
  while (done < size) {
    if (open.begin == open.end) {
      ProbeEvent event;
      bool any;
      uint64_t lost;
      const NumbersReading reading;
      if (!open.session->take_event(&event, &any, &lost)) break;
      open.begin = 0;
      open.end = lost > 0
                     ? static_cast<size_t>(format(open.line, sizeof(open.line), "lost %lu\n", lost))
                     : 0;
      if (any) open.end += probe_format_event(open.line + open.end, event);
    }
    const size_t part = std::min(size - done, open.end - open.begin);
    memcpy(buffer + done, open.line + open.begin, part);
    open.begin += part;
    done += part;
  }
  return done;
}

// Reads the session's number from `ctl`. Uses open.begin as the position, because writes of
// commands move the file's offset, too.
size_t read_number(OpenFile& open, char* buffer, size_t size, uint64_t offset) {
  const MutexGuard guard(open.reading);
  if (offset == 0) open.begin = 0;
  char number[16];
  const int length = format(number, sizeof(number), "%u\n", open.session->number());
  const size_t part = read_text({number, static_cast<size_t>(length)}, buffer, size, open.begin);
  open.begin += part;
  return part;
}

// The time that a reader of events sleeps between two checks.
constexpr Nanoseconds kStep{8'000'000};

Result<size_t> read_events(Chan& chan, OpenFile& open, char* buffer, size_t size) {
  for (;;) {
    // Reads `ended` before the events, so that no event from before the session's end is missed.
    const bool ended = open.session->events_ended();
    const size_t length = take_lines(open, buffer, size);
    if (length > 0 || ended || size == 0) return length;
    if (chan.open_flags & ABI_O_NONBLOCK) return Errno::EAGAIN;
    TRY(task_sleep_until(monotonic_now() + kStep));
  }
}

// The process that writes a command. Programs are opened with its namespace, current directory and
// access rights. Only ordinary files are opened, because the session's lock is held: the open of
// another file may take this lock, too (#probe/N/counts), or wait for a long time (a FIFO, a
// terminal).
class Caller final : public ProbeCaller {
 public:
  // stack: no recursion, because a Device is no ProbeCaller.
  Result<HeldRef<Chan>> open(std::string_view path) override {
    Process* const process = current_process();
    if (!process) return Errno::ENOENT;
    const PathContext context = process->path_context();
    Ref<Chan> file = TRY(path_walk(context, path));
    Device* const device = file->device;
    abi_stat stat = {};
    if (device->one_offset()) TRY(device->stat(*file, stat));
    if ((stat.mode & ABI_S_IFMT) != ABI_S_IFREG)
      return fail(Errno::EINVAL, "\"%s\": not an ordinary file", Quoted(path).get());
    return TRY(device->open(std::move(file), ABI_O_RDONLY, context.who)).release();
  }
  void close(HeldRef<Chan> program) override { Ref<Chan>::adopt(program).reset(); }
  bool is_ending() override { return process_is_ending(); }
};

class ProbeDevice final : public TableDevice {
 public:
  constexpr ProbeDevice() : TableDevice("probe", kTable) {}

  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override {
    if (chan->qid.path != kClone) return TableDevice::open(std::move(chan), flags, who);
    if (!permitted(kTable[kClone].mode, 0, 0, who, wanted_by_open(flags))) return Errno::EACCES;
    Ref<Chan> ctl = TRY(Chan::create(this, {}));
    OpenFile* const open = TRY(make_open());
    Result<ProbeSession*> session = make_session();
    if (!session) {
      close_session_file(*open);
      return session.error();
    }
    open->session = *session;
    ctl->qid = qid_of((*session)->number(), SessionFile::kCtl);
    ctl->state = open;
    ctl->is_open = true;
    ctl->open_flags = flags;
    return ctl;
  }

  size_t longest_command(const Chan&) const override { return kMaxCommand; }

  void close(Chan& chan) override {
    if (!chan.state) return;
    if (!is_dynamic(chan)) {
      Text::destroy(static_cast<Text*>(chan.state));
      return;
    }
    close_session_file(open_of(chan));
  }

 protected:
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    if (!chan.state) return Errno::EACCES;
    if (!is_dynamic(chan)) return static_cast<Text*>(chan.state)->read(buffer, size, offset);
    OpenFile& open = open_of(chan);
    if (open.counts) {
      const MutexGuard guard(open.reading);
      return open.counts->read(buffer, size, offset);
    }
    if (open.outstanding) return open.outstanding->read(buffer, size, offset);
    if (file_of(chan) == SessionFile::kEvents) return read_events(chan, open, buffer, size);
    return read_number(open, buffer, size, offset);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    if (!is_dynamic(chan) || file_of(chan) != SessionFile::kCtl) return Errno::EACCES;
    const std::string_view text(buffer, size);
    if (!is_command_text(text))
      return fail(Errno::EINVAL, "not text: expected commands, one a line");
    Caller caller;
    TRY(open_of(chan).session->command(text, caller));
    return size;
  }
  uint16_t poll_file(Chan& chan, PollWaiter* waiter) override {
    if (!is_dynamic(chan) || !chan.state || file_of(chan) != SessionFile::kEvents)
      return ABI_POLLIN | ABI_POLLOUT;
    if (waiter) waiter->look_again();  // a hit does not wake readers (probe/events_impl.h)
    OpenFile& open = open_of(chan);
    return open.begin != open.end || open.session->events_ready() ? ABI_POLLIN : 0;
  }
  Result<void> open_file(Chan& chan, uint32_t) override {
    if (is_dynamic(chan)) return open_session_file(chan);
    chan.state = TRY(Text::make(probe_print_functions));
    return {};
  }

  Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan) override {
    if (!is_dynamic(directory)) {
      if (directory.qid.path != kRoot) return Errno::ENOENT;
      uint64_t number;
      if (!parse_file_number(name, UINT32_MAX, &number)) return Errno::ENOENT;
      const MutexGuard guard(living_mutex);
      const Living* const one = find_living(static_cast<uint32_t>(number));
      if (!one) return Errno::ENOENT;
      chan.qid = qid_of(one->session->number(), SessionFile::kDirectory);
      return {};
    }
    for (uint64_t file = 1; file < std::size(kSessionFiles); file++) {
      if (name != kSessionFiles[file].name) continue;
      chan.qid = qid_of(number_of(directory), static_cast<SessionFile>(file));
      return {};
    }
    return Errno::ENOENT;
  }

  Result<void> dynamic_stat(Chan& chan, abi_stat& stat) override {
    fill_stat(stat, chan.qid.path, kSessionFiles[static_cast<uint64_t>(file_of(chan))].mode);
    return {};
  }

  Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry,
                             char* name) override {
    if (is_dynamic(directory)) {
      const uint64_t file = index + 1;
      if (file >= std::size(kSessionFiles)) return Errno::ENOENT;
      fill_stat(entry, qid_of(number_of(directory), static_cast<SessionFile>(file)).path,
                kSessionFiles[file].mode);
      format(name, 256, "%s", kSessionFiles[file].name);
      return {};
    }
    const MutexGuard guard(living_mutex);
    for (const Living& one : living) {
      if (!one.session || index-- > 0) continue;
      fill_stat(entry, qid_of(one.session->number(), SessionFile::kDirectory).path,
                kSessionFiles[0].mode);
      format(name, 256, "%u", one.session->number());
      return {};
    }
    return Errno::ENOENT;
  }

 private:
  static Qid qid_of(uint32_t number, SessionFile file) {
    return {.path = kDynamic + number * kFilesOfSession + static_cast<uint64_t>(file),
            .version = 0,
            .directory = file == SessionFile::kDirectory};
  }
  static uint32_t number_of(const Chan& chan) {
    return static_cast<uint32_t>((chan.qid.path - kDynamic) / kFilesOfSession);
  }
  static SessionFile file_of(const Chan& chan) {
    return static_cast<SessionFile>((chan.qid.path - kDynamic) % kFilesOfSession);
  }
  static OpenFile& open_of(Chan& chan) { return *static_cast<OpenFile*>(chan.state); }

  static Result<OpenFile*> make_open() {
    void* const memory = kmalloc(sizeof(OpenFile), KM_SLEEP);
    if (!memory) return Errno::ENOMEM;
    return new (memory) OpenFile{};
  }

  static void close_session_file(OpenFile& open) {
    if (open.counts) ProbeCountsText::destroy(open.counts);
    if (open.outstanding) TraceBinaryDump::destroy(open.outstanding);
    if (open.session) release_session(open.session);
    open.~OpenFile();
    kfree(&open);
  }

  static Result<void> open_session_file(Chan& chan) {
    OpenFile* const open = TRY(make_open());
    const auto fill = [&]() -> Result<void> {
      open->session = TRY(hold_session(number_of(chan)));
      switch (file_of(chan)) {
        case SessionFile::kCounts:
          open->counts = TRY(ProbeCountsText::create(*open->session));
          return {};
        case SessionFile::kEvents:
          return open->session->open_events();
        case SessionFile::kOutstanding:
          open->outstanding = TRY(open->session->open_outstanding());
          return {};
        case SessionFile::kCtl:
        case SessionFile::kDirectory:
          break;
      }
      return {};
    };
    const Result<void> filled = fill();
    if (!filled) {
      close_session_file(*open);
      return filled;
    }
    chan.state = open;
    return {};
  }
};

constinit ProbeDevice device;

}  // namespace

void probe_device_init() {
  device_register(&device);
}
