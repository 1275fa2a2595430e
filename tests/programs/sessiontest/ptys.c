/* Pseudo-terminals: the pair of master and slave, data between the two, and closing them. */
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "sessiontest.h"

struct pair open_pair(void) {
  struct pair pair = {-1, -1, ""};
  EXPECT(openpty(&pair.master, &pair.slave, pair.name, NULL, NULL) == 0);
  return pair;
}
void close_pair(struct pair* pair) {
  close(pair->slave);
  close(pair->master);
}

int reads(int fd, const char* text) {
  char buffer[256];
  size_t length = strlen(text), got = 0;
  while (got < length) {
    ssize_t part = read(fd, buffer + got, length - got);
    if (part <= 0) break;
    got += (size_t)part;
  }
  if (got == length && memcmp(buffer, text, length) == 0) return 1;
  printf("# read \"%.*s\" for \"%s\"\n", (int)got, buffer, text);
  return 0;
}
int types(int fd, const char* text) {
  return write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}
short ready(int fd) {
  struct pollfd entry = {fd, POLLIN | POLLOUT, 0};
  return poll(&entry, 1, 0) < 0 ? -1 : entry.revents;
}

static void pair_passes_bytes(void) {
  struct pair pair = open_pair();
  char name[64];
  EXPECT(isatty(pair.master) && isatty(pair.slave));
  EXPECT(ttyname_r(pair.slave, name, sizeof name) == 0 && strcmp(name, pair.name) == 0);
  EXPECT(ttyname_r(pair.slave, name, 4) == ERANGE);
  EXPECT(ttyname(pair.master) == NULL && strcmp(ptsname(pair.master), pair.name) == 0);
  EXPECT(ptsname(STDIN_FILENO) == NULL && errno == ENOTTY && grantpt(pair.master) == 0);
  EXPECT(types(pair.master, "abc\r") && reads(pair.slave, "abc\n") &&
         reads(pair.master, "abc\r\n"));
  EXPECT(types(pair.slave, "x\ny") && reads(pair.master, "x\r\ny"));
  EXPECT(ready(pair.master) == POLLOUT && ready(pair.slave) == POLLOUT);
  EXPECT(types(pair.master, "z") && ready(pair.slave) == POLLOUT && types(pair.master, "\n"));
  EXPECT(ready(pair.slave) == (POLLIN | POLLOUT) && ready(pair.master) == (POLLIN | POLLOUT));
  EXPECT(lseek(pair.slave, 0, SEEK_SET) == -1 && errno == ESPIPE);
  struct stat status;
  EXPECT(stat(pair.name, &status) == 0 && S_ISCHR(status.st_mode));
  EXPECT((status.st_mode & 0777) == 0620 && status.st_uid == geteuid() && status.st_gid == 5);
  close_pair(&pair);
}

static void pair_ends(void) {
  struct pair pair = open_pair();
  char byte;
  /* After the slave is closed, the master first reads the slave's remaining output, then gets
   * EIO. */
  EXPECT(types(pair.slave, "last") && close(pair.slave) == 0);
  EXPECT(ready(pair.master) == (POLLIN | POLLOUT | POLLHUP));
  EXPECT(reads(pair.master, "last") && read(pair.master, &byte, 1) == -1 && errno == EIO);
  pair.slave = open(pair.name, O_RDWR | O_NOCTTY);
  EXPECT(pair.slave >= 0 && types(pair.slave, "again") && reads(pair.master, "again"));
  /* The master is closed. */
  EXPECT(types(pair.master, "unread\n") && close(pair.master) == 0);
  EXPECT(read(pair.slave, &byte, 1) == 0 && write(pair.slave, "x", 1) == -1 && errno == EIO);
  EXPECT(ready(pair.slave) == (POLLIN | POLLHUP) && !isatty(pair.slave) && errno == EIO);
  EXPECT(open(pair.name, O_RDWR | O_NOCTTY) == -1 && errno == ENOENT);
  close(pair.slave);

  int master = posix_openpt(O_RDWR);
  EXPECT(master >= 0 && open(ptsname(master), O_RDWR | O_NOCTTY) == -1 && errno == EIO);
  EXPECT(unlockpt(master) == 0 && (pair.slave = open(ptsname(master), O_RDWR | O_NOCTTY)) >= 0);
  close(pair.slave);
  close(master);
}

static struct pair shared;

static int opens_anothers_slave(void) {
  become(OTHER);
  EXPECT(open(shared.name, O_RDWR | O_NOCTTY) == -1 && errno == EACCES);
  EXPECT(open(shared.name, O_RDONLY | O_NOCTTY) == -1 && errno == EACCES);
  EXPECT(chmod(shared.name, 0666) == -1 && errno == EPERM);
  /* Each user may make pseudo-terminals, and may permit other users to open the slaves. */
  struct pair own = open_pair();
  EXPECT(open(own.name, O_RDWR | O_NOCTTY) >= 0 && chmod(own.name, 0666) == 0);
  return 0;
}

static int writes_much(void) {
  static char text[100000];
  close(shared.master);
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
  struct termios modes;
  tcgetattr(shared.slave, &modes);
  cfmakeraw(&modes);
  tcsetattr(shared.slave, TCSANOW, &modes);
  return write(shared.slave, text, sizeof text) != sizeof text;
}

static int types_much(void) {
  static char text[100000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
  close(shared.slave);
  return write(shared.master, text, sizeof text) != sizeof text;
}

/* Reads from `fd` until at least `size` bytes are read or the file ends. Returns the number of
 * bytes, or 0 if the bytes do not repeat the alphabet. */
static size_t alphabet_from(int fd, size_t size) {
  char buffer[777];
  size_t total = 0;
  while (total < size) {
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got <= 0) break;
    for (ssize_t i = 0; i < got; i++) {
      if (buffer[i] != (char)('a' + (total + (size_t)i) % 26)) return 0;
    }
    total += (size_t)got;
  }
  return total;
}

static void pair_is_full(void) {
  shared = open_pair();
  pid_t child = start_child(writes_much);
  close(shared.slave);
  EXPECT(alphabet_from(shared.master, 200000) == 100000 && errno == EIO);
  EXPECT(exit_code_of(child) == 0);
  shared.slave = open(shared.name, O_RDWR | O_NOCTTY);
  EXPECT(shared.slave >= 0); /* the slave is still in raw mode */
  child = start_child(types_much);
  EXPECT(alphabet_from(shared.slave, 100000) == 100000);
  EXPECT(exit_code_of(child) == 0);

  char text[1000];
  memset(text, 'x', sizeof text);
  EXPECT(fcntl(shared.slave, F_SETFL, O_NONBLOCK) == 0 &&
         fcntl(shared.master, F_SETFL, O_NONBLOCK) == 0);
  EXPECT(read(shared.slave, text, 1) == -1 && errno == EAGAIN);
  EXPECT(read(shared.master, text, 1) == -1 && errno == EAGAIN);
  ssize_t written, total = 0;
  while ((written = write(shared.slave, text, sizeof text)) > 0) total += written;
  EXPECT(written == -1 && errno == EAGAIN && total >= 1000 && ready(shared.slave) == 0);
  EXPECT(tcflush(shared.slave, TCOFLUSH) == 0 && ready(shared.slave) == POLLOUT);
  for (total = 0; (written = write(shared.master, text, sizeof text)) > 0;) total += written;
  EXPECT(written == -1 && errno == EAGAIN && total >= 1000 && ready(shared.master) == 0);
  EXPECT(tcflush(shared.slave, TCIOFLUSH) == 0 && ready(shared.master) == POLLOUT);
  close_pair(&shared);
}

static int reads_slave(void) {
  char byte;
  close(shared.master);
  return (int)read(shared.slave, &byte, 1);
}
static int reads_master(void) {
  char byte;
  close(shared.slave);
  return read(shared.master, &byte, 1) == -1 && errno == EIO ? 0 : 1;
}
static int writes_for_ever(void) {
  close(shared.master);
  while (write(shared.slave, "xxxxxxxxxxxxxxxx", 16) > 0) continue;
  return errno == EIO ? 0 : 1;
}

/* One end is closed while a process waits at the other end. */
static void pair_ends_for_who_waits(void) {
  for (int i = 0; i < 20; i++) {
    shared = open_pair();
    pid_t reader = start_child(reads_slave), writer = start_child(writes_for_ever);
    if (i % 2) usleep(1000);
    close_pair(&shared);
    EXPECT(exit_code_of(reader) == 0 && exit_code_of(writer) == 0);
    shared = open_pair();
    reader = start_child(reads_master);
    if (i % 2) usleep(1000);
    close(shared.slave);
    EXPECT(exit_code_of(reader) == 0);
    close(shared.master);
    shared = open_pair();
    reader = start_child(reads_slave);
    if (i % 2) usleep(1000);
    int status;
    EXPECT(kill(reader, SIGKILL) == 0 && waitpid(reader, &status, 0) == reader);
    close_pair(&shared);
  }
}

static void many_pairs(void) {
  for (int i = 0; i < 1000; i++) {
    struct pair pair = open_pair();
    close(i % 2 ? pair.master : pair.slave);
    close(i % 2 ? pair.slave : pair.master);
  }
  struct pair pairs[100];
  for (int i = 0; i < 100; i++) pairs[i] = open_pair();
  EXPECT(strcmp(pairs[0].name, pairs[99].name) != 0);
  for (int i = 0; i < 100; i++) close_pair(&pairs[i]);
}

static int opens_pairs(void) {
  for (int i = 0; i < 300; i++) {
    struct pair pair = open_pair();
    EXPECT(types(pair.slave, "x") && reads(pair.master, "x"));
    close_pair(&pair);
  }
  return 0;
}

static void pairs_on_all_cpus(void) {
  pid_t children[4];
  for (int i = 0; i < 4; i++) children[i] = start_child(opens_pairs);
  for (int i = 0; i < 4; i++) EXPECT(exit_code_of(children[i]) == 0);
}

void test_ptys(void) {
  pair_passes_bytes();
  pair_ends();
  shared = open_pair();
  EXPECT(in_child(opens_anothers_slave) == 0);
  close_pair(&shared);
  pair_is_full();
  pair_ends_for_who_waits();
  many_pairs();
  pairs_on_all_cpus();
}
