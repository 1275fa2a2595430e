/* The operations of failtest. */
#include "failtest.h"

#define FILE_PATH FOLDER "/file"
#define OTHER_PATH FOLDER "/other"

enum { LARGE = 100000 };
static char buffer[LARGE];
static int fds[2] = {-1, -1};

/* Touches the buffer, so that its pages are present when the kernel uses it. */
static void touch_buffer(const struct operation* self) {
  (void)self;
  memset(buffer, 'x', sizeof(buffer));
}

static void must(long result) {
  if (result < 0 && result >= -4095) not_prepared(-result);
}

static long close_pair(long result) {
  for (int i = 0; i < 2; i++) {
    if (fds[i] >= 0) STELE_CALL(close, fds[i]);
    fds[i] = -1;
  }
  return result;
}

/* ---- Files. */

static long open_close(const struct operation* self) {
  const long fd = CALL_AT(open, self->path, self->number, 0644);
  if (fd >= 0) STELE_CALL(close, fd);
  return fd;
}

static long read_whole(const struct operation* self) {
  const long fd = CALL_AT(open, self->path, ABI_O_RDONLY, 0);
  if (fd < 0) return fd;
  long got = STELE_CALL(read, fd, buffer, self->number);
  for (int parts = 0; got > 0 && parts < 10; parts++)
    got = STELE_CALL(read, fd, buffer, self->number);
  STELE_CALL(close, fd);
  return got;
}

static long list(const struct operation* self) {
  const long fd = CALL_AT(open, self->path, ABI_O_RDONLY | ABI_O_DIRECTORY, 0);
  if (fd < 0) return fd;
  long got;
  while ((got = STELE_CALL(getdents, fd, buffer, 4096)) > 0) continue;
  STELE_CALL(close, fd);
  return got;
}

static void make_file(const struct operation* self) {
  touch_buffer(self);
  const long fd = CALL_AT(open, FILE_PATH, ABI_O_RDWR | ABI_O_CREAT | ABI_O_TRUNC, 0644);
  must(fd);
  must(STELE_CALL(write, fd, buffer, 3 * 4096));
  STELE_CALL(close, fd);
}
static void remove_files(const struct operation* self) {
  CALL_AT(unlink, FILE_PATH, 0);
  CALL_AT(unlink, OTHER_PATH, 0);
  CALL_AT(unlink, OTHER_PATH, ABI_AT_REMOVEDIR);
  if (self->path) CALL_AT(unlink, self->path, 0);
}

/* If memory runs out after some of the bytes are written, the write of the rest returns the
 * error. */
static long write_all(const struct operation* self) {
  const long fd = CALL_AT(open, self->path, ABI_O_RDWR | ABI_O_CREAT, 0644);
  if (fd < 0) return fd;
  long done = 0, put = 0;
  while (done < self->number && (put = STELE_CALL(write, fd, buffer, self->number - done)) > 0)
    done += put;
  STELE_CALL(close, fd);
  return put;
}
static void prepare_read(const struct operation* self) {
  touch_buffer(self);
  must(write_all(self));
}

static long write_far(const struct operation* self) {
  const long fd = CALL_AT(open, FILE_PATH, ABI_O_RDWR, 0);
  if (fd < 0) return fd;
  const long put = STELE_CALL(pwrite, fd, buffer, 100, self->number);
  STELE_CALL(close, fd);
  return put;
}
static long truncate_to(const struct operation* self) {
  return STELE_CALL(truncate, FILE_PATH, self->number);
}
static long make_directory(const struct operation* self) {
  (void)self;
  return CALL_AT(mkdir, OTHER_PATH, 0755);
}
static void prepare_directory(const struct operation* self) {
  must(make_directory(self));
}
static long remove_directory(const struct operation* self) {
  (void)self;
  return CALL_AT(unlink, OTHER_PATH, ABI_AT_REMOVEDIR);
}
static long unlink_file(const struct operation* self) {
  (void)self;
  return CALL_AT(unlink, FILE_PATH, 0);
}
static long rename_file(const struct operation* self) {
  (void)self;
  return CALL_AT(rename, FILE_PATH, ABI_AT_FDCWD,
                 OTHER_PATH "-with-a-long-name-that-takes-an-object-of-another-size");
}
static void remove_renamed(const struct operation* self) {
  remove_files(self);
  CALL_AT(unlink, OTHER_PATH "-with-a-long-name-that-takes-an-object-of-another-size", 0);
}
static long change_mode(const struct operation* self) {
  (void)self;
  return CALL_AT(chmod, FILE_PATH, 0600, 0);
}
static long stat_file(const struct operation* self) {
  return CALL_AT(stat, self->path, buffer, 0);
}
static long access_file(const struct operation* self) {
  return CALL_AT(access, self->path, 4, 0);
}
static long change_directory(const struct operation* self) {
  return STELE_CALL(chdir, self->path);
}
static long open_here(const struct operation* self) {
  long result = STELE_CALL(chdir, FOLDER);
  if (result < 0) return result;
  const long fd = CALL_AT(open, "../../proc/./self/../meminfo", ABI_O_RDONLY, 0);
  if (fd < 0) return fd;
  STELE_CALL(close, fd);
  (void)self;
  return STELE_CALL(getcwd, buffer, sizeof(buffer));
}
static long bind_folder(const struct operation* self) {
  return STELE_CALL(bind, FOLDER, "/home", self->number);
}
static void unbind(const struct operation* self) {
  (void)self;
  STELE_CALL(unmount, "/home");
}
static void prepare_bind(const struct operation* self) {
  must(bind_folder(self));
}
static long create_in_union(const struct operation* self) {
  (void)self;
  const long fd = CALL_AT(open, "/home/file", ABI_O_RDWR | ABI_O_CREAT, 0644);
  if (fd >= 0) STELE_CALL(close, fd);
  return fd;
}
static void undo_union(const struct operation* self) {
  unbind(self);
  remove_files(self);
}
static long unmount_folder(const struct operation* self) {
  (void)self;
  return STELE_CALL(unmount, "/home");
}

/* ---- Descriptors. */

/* Touches fds[], so that the kernel can write there without a page fault. */
static void touch_pair(const struct operation* self) {
  (void)self;
  fds[0] = fds[1] = -1;
}
static long make_pipe(const struct operation* self) {
  const long result = STELE_CALL(pipe2, fds, self->number);
  return result < 0 ? result : close_pair(result);
}
static void open_pipe(const struct operation* self) {
  touch_buffer(self);
  must(STELE_CALL(pipe2, fds, ABI_O_NONBLOCK));
}
static void close_pipe(const struct operation* self) {
  (void)self;
  close_pair(0);
}
static long through_pipe(const struct operation* self) {
  const long put = STELE_CALL(write, fds[1], buffer, self->number);
  return put < 0 ? put : STELE_CALL(read, fds[0], buffer, self->number);
}
static long duplicate(const struct operation* self) {
  (void)self;
  const long fd = STELE_CALL(dup, fds[0]);
  if (fd >= 0) STELE_CALL(close, fd);
  return fd;
}
static long poll_pipe(const struct operation* self) {
  const struct abi_timespec soon = {.nsec = 1000000};
  struct abi_pollfd entries[100];
  for (int i = 0; i < self->number; i++) entries[i] = (struct abi_pollfd){fds[0], ABI_POLLIN, 0};
  return STELE_CALL(poll, entries, self->number, &soon);
}

/* ---- Memory. */

static long grow_break(const struct operation* self) {
  const long end = STELE_CALL(brk, 0);
  return STELE_CALL(brk, end + self->number) == end + self->number ? 0 : -ENOMEM;
}
static long map(const struct operation* self) {
  return STELE_CALL(mmap, 0, self->number, ABI_PROT_READ | ABI_PROT_WRITE,
                    ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS, -1, 0);
}
static char* mapped;
static void prepare_map(const struct operation* self) {
  const long address = map(self);
  must(address);
  mapped = (char*)address;
}
static long unmap_middle(const struct operation* self) {
  return STELE_CALL(munmap, mapped + 4096, self->number - 2 * 4096);
}
static long map_over(const struct operation* self) {
  return STELE_CALL(mmap, mapped + 4096, self->number - 2 * 4096, ABI_PROT_READ,
                    ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS | ABI_MAP_FIXED, -1, 0);
}
static long touch_mapped(const struct operation* self) {
  for (long at = 0; at < self->number; at += 4096) ((volatile char*)mapped)[at] = 1;
  return 0;
}
/* The kernel writes to pages that are not present yet. */
static long read_into_mapped(const struct operation* self) {
  const long fd = CALL_AT(open, "/dev/zero", ABI_O_RDONLY, 0);
  if (fd < 0) return fd;
  const long got = STELE_CALL(read, fd, mapped, self->number);
  STELE_CALL(close, fd);
  return got;
}

/* ---- Processes. */

static long make_process(const struct operation* self) {
  (void)self;
  const long pid = STELE_CALL(fork);
  if (pid == 0) STELE_CALL(exit, 0);
  return pid < 0 ? pid : STELE_CALL(wait4, pid, 0, 0, 0);
}
static void map_and_touch(const struct operation* self) {
  prepare_map(self);
  touch_mapped(self);
}

/* The started program, `failtest helper`, reports the outcome. If execve fails, this process
 * reports it. */
static char long_argument[40000];
static char* arguments[5] = {"failtest", "helper", "", try_number, NULL};
static long start_program(const struct operation* self) {
  char* environment[] = {"A=B", NULL};
  return STELE_CALL(execve, self->path, arguments, environment);
}
static void prepare_long(const struct operation* self) {
  (void)self;
  memset(long_argument, 'a', sizeof(long_argument) - 1);
  arguments[2] = long_argument;
}
static void prepare_script(const struct operation* self) {
  const char text[] = "#!/bin/failtest helper\n";
  const long fd = CALL_AT(open, self->path, ABI_O_RDWR | ABI_O_CREAT | ABI_O_TRUNC, 0755);
  must(fd);
  must(STELE_CALL(write, fd, text, sizeof(text) - 1));
  STELE_CALL(close, fd);
}

static void on_signal(int number) {
  (void)number;
}
static void handle_signal(const struct operation* self) {
  (void)self;
  signal(SIGUSR1, on_signal);
  raise(SIGUSR1);
}
static long signal_self(const struct operation* self) {
  (void)self;
  return STELE_CALL(kill, STELE_CALL(getpid), SIGUSR1);
}
static long sleep_little(const struct operation* self) {
  (void)self;
  struct abi_timespec time = {0, 1000000};
  return STELE_CALL(nanosleep, ABI_CLOCK_MONOTONIC, 0, &time, 0);
}
static void block_signal(const struct operation* self) {
  const uint64_t mask = (uint64_t)1 << self->number;
  must(STELE_CALL(sigprocmask, 1, &mask, 0));
}
static long queue_signal(const struct operation* self) {
  return STELE_CALL(sigqueue, STELE_CALL(getpid), self->number, 5);
}
static long use_timer(const struct operation* self) {
  const struct abi_sigevent event = {.notify = ABI_SIGEV_SIGNAL, .signal = (int)self->number};
  const struct abi_itimerspec setting = {.interval = {.nsec = 1}, .value = {.nsec = 1}};
  const long id = STELE_CALL(timer_create, ABI_CLOCK_MONOTONIC, &event);
  if (id < 0) return id;
  must(STELE_CALL(timer_settime, id, 0, &setting, 0));
  const long slept = sleep_little(self);
  must(STELE_CALL(timer_delete, id));
  return slept;
}

/* ---- The devices #mem and #debug. An operation's `number` is an index in texts[]. */

static const char* const texts[] = {
    "start\n",
    "stop\nreset\n",
    "start\nmark\nstop\nreset\n",
    "settle\n",
    "mark\n",
    "leak debug_64 600\n",
    "leak debug_64 100 depth=8 irq\n",
    "free debug_64 600\n",
    "free debug_64 100\n",
    "churn debug_1024 100\n",
};
static long write_text(const char* path, const char* text) {
  const long fd = CALL_AT(open, path, ABI_O_WRONLY, 0);
  if (fd < 0) return fd;
  const long put = STELE_CALL(write, fd, text, strlen(text));
  STELE_CALL(close, fd);
  return put;
}
static long give_command(const struct operation* self) {
  return write_text(self->path, texts[self->number]);
}
static void end_trace(const struct operation* self) {
  must(write_text(self->path, texts[1]));
}
static void free_600(const struct operation* self) {
  must(write_text(self->path, texts[7]));
}
static void free_100(const struct operation* self) {
  must(write_text(self->path, texts[8]));
}
static void trace_and_leak(const struct operation* self) {
  touch_buffer(self);
  must(write_text(self->path, texts[0]));
  must(write_text("#debug/alloc", texts[5]));
}
static void end_trace_and_free(const struct operation* self) {
  must(write_text("#debug/alloc", texts[7]));
  must(write_text(self->path, texts[1]));
}
static void start_trace(const struct operation* self) {
  touch_buffer(self);
  must(write_text(self->path, texts[0]));
}

#define OPEN(file) \
  { "open " file, NULL, NULL, open_close, file, ABI_O_RDONLY, 0 }
#define READ(file) \
  { "read " file, touch_buffer, NULL, read_whole, file, 8192, 0 }

const struct operation operations[] = {
    OPEN("/bin/sh"),
    OPEN("/dev/null"),
    OPEN("#root/etc/profile"),
    OPEN("#random/random"),
    OPEN("#debug/leaky/clean"),
    OPEN("#pipe"),
    OPEN("#pty/ptmx"),
    OPEN("/dev/fd/0"),
    READ("/bin/sh"),
    READ("#mem/kmemstat"),
    READ("#mem/slab_stats"),
    READ("#mem/arena_stats"),
    READ("#mem/free"),
    READ("#mem/kmemtrace/ctl"),
    READ("#mem/kmemtrace/debug_64"),
    READ("/proc/self/stat"),
    READ("/proc/self/status"),
    READ("/proc/self/cmdline"),
    READ("/proc/self/comm"),
    READ("/proc/stat"),
    READ("/proc/meminfo"),
    READ("#debug/alloc"),
    {"read large", touch_buffer, NULL, read_whole, "/dev/zero", LARGE, 0},
    {"list /", touch_buffer, NULL, list, "/", 0, 0},
    {"list /dev", touch_buffer, NULL, list, "/dev", 0, 0},
    {"list /tmp", touch_buffer, NULL, list, "/tmp", 0, 0},
    {"list /proc", touch_buffer, NULL, list, "/proc", 0, 0},
    {"list #mem/kmemtrace", touch_buffer, NULL, list, "#mem/kmemtrace", 0, 0},
    {"create", NULL, remove_files, open_close, FILE_PATH, ABI_O_RDWR | ABI_O_CREAT | ABI_O_TRUNC,
     0},
    {"create exclusively", NULL, remove_files, open_close, FILE_PATH,
     ABI_O_RDWR | ABI_O_CREAT | ABI_O_EXCL, 0},
    {"open to truncate", make_file, remove_files, open_close, FILE_PATH, ABI_O_RDWR | ABI_O_TRUNC,
     0},
    {"write", touch_buffer, remove_files, write_all, FILE_PATH, 100, 0},
    {"write large", touch_buffer, remove_files, write_all, FILE_PATH, LARGE, 0},
    {"write beyond the end", make_file, remove_files, write_far, FILE_PATH, 40 << 20, 0},
    {"truncate", make_file, remove_files, truncate_to, FILE_PATH, 5000, 0},
    {"truncate up", make_file, remove_files, truncate_to, FILE_PATH, 50 << 20, 0},
    {"mkdir", NULL, remove_files, make_directory, NULL, 0, 0},
    {"rmdir", prepare_directory, remove_files, remove_directory, NULL, 0, 0},
    {"unlink", make_file, remove_files, unlink_file, NULL, 0, 0},
    {"rename", make_file, remove_renamed, rename_file, NULL, 0, 0},
    {"chmod", make_file, remove_files, change_mode, NULL, 0, 0},
    {"stat", touch_buffer, NULL, stat_file, "/proc/self/status", 0, 0},
    {"access", NULL, NULL, access_file, "#mem/kmemtrace/debug_64", 0, 0},
    {"chdir", NULL, NULL, change_directory, FOLDER, 0, 0},
    {"relative paths", touch_buffer, NULL, open_here, NULL, 0, 0},
    {"bind", NULL, unbind, bind_folder, NULL, ABI_BIND_REPLACE, 0},
    {"bind as union", NULL, unbind, bind_folder, NULL, ABI_BIND_AFTER | ABI_BIND_CREATE, 0},
    {"create in a union", prepare_bind, undo_union, create_in_union, NULL,
     ABI_BIND_BEFORE | ABI_BIND_CREATE, 0},
    {"unmount", prepare_bind, unbind, unmount_folder, NULL, ABI_BIND_BEFORE, 0},
    {"pipe", touch_pair, NULL, make_pipe, NULL, 0, 0},
    {"write to a pipe", open_pipe, close_pipe, through_pipe, NULL, 5000, 0},
    {"dup", open_pipe, close_pipe, duplicate, NULL, 0, 0},
    {"poll", open_pipe, close_pipe, poll_pipe, NULL, 1, 0},
    {"poll many", open_pipe, close_pipe, poll_pipe, NULL, 100, 0},
    {"brk", NULL, NULL, grow_break, NULL, 1 << 20, 0},
    {"mmap", NULL, NULL, map, NULL, 1 << 20, 0},
    {"munmap", prepare_map, NULL, unmap_middle, NULL, 1 << 20, 0},
    {"munmap of touched memory", map_and_touch, NULL, unmap_middle, NULL, 1 << 20, 0},
    {"mmap over", map_and_touch, NULL, map_over, NULL, 1 << 20, 0},
    {"touch", prepare_map, NULL, touch_mapped, NULL, 20 * 4096, 1},
    {"read into fresh memory", prepare_map, NULL, read_into_mapped, NULL, 5 * 4096, 1},
    {"fork", NULL, NULL, make_process, NULL, 1 << 16, 1},
    {"fork with more memory", map_and_touch, NULL, make_process, NULL, 10 << 20, 1},
    {"exec", NULL, NULL, start_program, "/bin/failtest", 0, 1},
    {"exec with long arguments", prepare_long, NULL, start_program, "/bin/failtest", 0, 1},
    {"exec of a script", prepare_script, NULL, start_program, SCRIPT, 0, 1},
    {"signal", handle_signal, NULL, signal_self, NULL, 0, 1},
    {"sigqueue", block_signal, NULL, queue_signal, NULL, ABI_SIGRTMIN, 0},
    {"timer", block_signal, NULL, use_timer, NULL, ABI_SIGRTMIN, 0},
    {"nanosleep", NULL, NULL, sleep_little, NULL, 0, 0},
    {"trace one", NULL, end_trace, give_command, "#mem/kmemtrace/debug_64", 0, 0},
    {"trace all", NULL, end_trace, give_command, "#mem/kmemtrace/ctl", 0, 0},
    {"end of a trace", start_trace, end_trace, give_command, "#mem/kmemtrace/ctl", 1, 0},
    {"trace from start to reset", NULL, end_trace, give_command, "#mem/kmemtrace/ctl", 2, 0},
    {"mark", start_trace, end_trace, give_command, "#mem/kmemtrace/ctl", 4, 0},
    {"settle", NULL, NULL, give_command, "#mem/kmemtrace/ctl", 3, 0},
    {"read a dump", trace_and_leak, end_trace_and_free, read_whole, "#mem/kmemtrace/debug_64", 8192,
     0},
    {"read the states", start_trace, end_trace, read_whole, "#mem/kmemtrace/ctl", 8192, 0},
    {"leak", NULL, free_600, give_command, "#debug/alloc", 5, 0},
    {"leak in an interrupt", NULL, free_100, give_command, "#debug/alloc", 6, 0},
    {"churn", NULL, NULL, give_command, "#debug/alloc", 9, 0},
    {"host list", touch_buffer, NULL, list, "/host", 0, 0},
    {"host create", NULL, remove_files, open_close, "/host/file",
     ABI_O_RDWR | ABI_O_CREAT | ABI_O_EXCL, 0},
    {"host open", prepare_read, remove_files, open_close, "/host/file", ABI_O_RDWR | ABI_O_TRUNC,
     0},
    {"host write", touch_buffer, remove_files, write_all, "/host/file", LARGE, 0},
    {"host read", prepare_read, remove_files, read_whole, "/host/file", LARGE, 0},
    {"host stat", touch_buffer, NULL, stat_file, "/host", 0, 0},
};
const unsigned operation_count = sizeof(operations) / sizeof(operations[0]);
