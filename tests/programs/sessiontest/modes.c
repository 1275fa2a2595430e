/* The line discipline of a terminal, with input from the master of a pseudo-terminal. */
#include <sys/ioctl.h>
#include <termios.h>

#include "sessiontest.h"

static struct pair pair;

static void set_modes(tcflag_t iflag, tcflag_t oflag, tcflag_t lflag) {
  struct termios modes;
  EXPECT(tcgetattr(pair.slave, &modes) == 0);
  modes.c_iflag = iflag;
  modes.c_oflag = oflag;
  modes.c_lflag = lflag;
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  EXPECT(tcsetattr(pair.slave, TCSAFLUSH, &modes) == 0 && tcflush(pair.slave, TCOFLUSH) == 0);
}
static void set_timing(cc_t minimum, cc_t time) {
  struct termios modes;
  EXPECT(tcgetattr(pair.slave, &modes) == 0);
  modes.c_cc[VMIN] = minimum;
  modes.c_cc[VTIME] = time;
  EXPECT(tcsetattr(pair.slave, TCSANOW, &modes) == 0);
}

static void lines_are_edited(void) {
  char buffer[16];
  EXPECT(types(pair.master,
               "one two\x17"
               "three\x7f\x7fy\n"));
  EXPECT(reads(pair.slave, "one thry\n"));
  EXPECT(reads(pair.master, "one two\b \b\b \b\b \bthree\b \b\b \by\r\n"));
  EXPECT(types(pair.master,
               "gone\x15"
               "a\x16\x03"
               "b\n") &&
         reads(pair.slave,
               "a\x03"
               "b\n"));
  tcflush(pair.master, TCOFLUSH);
  EXPECT(types(pair.master, "half\x04") && reads(pair.slave, "half"));
  EXPECT(types(pair.master, "\x04") && read(pair.slave, buffer, sizeof buffer) == 0);
  EXPECT(types(pair.master, "ab\ncd\n") && read(pair.slave, buffer, sizeof buffer) == 3);
  EXPECT(read(pair.slave, buffer, 2) == 2 && memcmp(buffer, "cd", 2) == 0 &&
         reads(pair.slave, "\n"));
  EXPECT(types(pair.master, "lost") && tcflush(pair.slave, TCIFLUSH) == 0 &&
         types(pair.master, "kept\n") && reads(pair.slave, "kept\n"));
}

static void echoes(void) {
  set_modes(ICRNL, 0, ICANON);
  EXPECT(types(pair.master, "unseen\r") && reads(pair.slave, "unseen\n"));
  set_modes(ICRNL, 0, ICANON | ECHONL);
  EXPECT(types(pair.master, "unseen\r") && reads(pair.slave, "unseen\n") &&
         reads(pair.master, "\n"));
  set_modes(0, 0, ICANON | ECHO | ECHOK);
  EXPECT(types(pair.master,
               "ab\x15"
               "c\x07\n") &&
         reads(pair.slave, "c\x07\n"));
  EXPECT(reads(pair.master, "ab\x15\nc\x07\n"));
  set_modes(0, OPOST | OCRNL, ICANON);
  EXPECT(types(pair.slave, "a\rb\n") && reads(pair.master, "a\nb\n"));
}

static void input_is_mapped(void) {
  set_modes(INLCR, 0, 0);
  EXPECT(types(pair.master, "a\nb\r") && reads(pair.slave, "a\rb\r"));
  set_modes(IGNCR | ISTRIP, 0, 0);
  EXPECT(types(pair.master, "a\r\xe2\n") && reads(pair.slave, "ab\n"));
  EXPECT(types(pair.master, "\x03\x04\x16\x7f") && reads(pair.slave, "\x03\x04\x16\x7f"));
}

static int types_slowly(void) {
  usleep(20000);
  types(pair.master, "12");
  usleep(20000);
  types(pair.master, "345");
  return 0;
}

static void bytes_are_timed(void) {
  char buffer[16];
  set_modes(0, 0, 0);
  set_timing(0, 0);
  EXPECT(read(pair.slave, buffer, sizeof buffer) == 0);
  EXPECT(types(pair.master, "ab") && read(pair.slave, buffer, sizeof buffer) == 2);
  set_timing(0, 1);
  EXPECT(read(pair.slave, buffer, sizeof buffer) == 0);
  set_timing(5, 0);
  pid_t typist = start_child(types_slowly);
  EXPECT(read(pair.slave, buffer, sizeof buffer) == 5 && memcmp(buffer, "12345", 5) == 0);
  EXPECT(exit_code_of(typist) == 0);
  EXPECT(types(pair.master, "ab") && read(pair.slave, buffer, 2) == 2);
  set_timing(9, 1); /* asks for 9 bytes, but only 2 arrive in time */
  EXPECT(types(pair.master, "ab") && read(pair.slave, buffer, sizeof buffer) == 2);
  set_timing(1, 0);
}

static void output_is_stopped(void) {
  set_modes(IXON, 0, 0);
  EXPECT(types(pair.master, "\x13") && fcntl(pair.slave, F_SETFL, O_NONBLOCK) == 0);
  EXPECT(write(pair.slave, "x", 1) == -1 && errno == EAGAIN);
  EXPECT(types(pair.master, "\x11") && types(pair.slave, "x") && reads(pair.master, "x"));
  EXPECT(tcflow(pair.slave, TCOOFF) == 0 && write(pair.slave, "x", 1) == -1 && errno == EAGAIN);
  EXPECT(tcflow(pair.slave, TCOON) == 0 && types(pair.slave, "y") && reads(pair.master, "y"));
  EXPECT(tcflow(pair.slave, TCIOFF) == 0 && tcflow(pair.slave, TCION) == 0);
  EXPECT(reads(pair.master, "\x13\x11") && tcflow(pair.slave, 9) == -1 && errno == EINVAL);
  EXPECT(fcntl(pair.slave, F_SETFL, 0) == 0 && tcflush(pair.slave, 7) == -1 && errno == EINVAL);
}

static void modes_change(void) {
  struct termios modes, same;
  EXPECT(tcgetattr(pair.slave, &modes) == 0);
  EXPECT(cfsetspeed(&modes, B38400) == 0 && cfgetospeed(&modes) == B38400);
  EXPECT(cfsetispeed(&modes, 0) == 0 && cfgetispeed(&modes) == B38400);
  EXPECT(cfsetospeed(&modes, 12345678) == -1 && errno == EINVAL);
  EXPECT(tcsetattr(pair.slave, TCSADRAIN, &modes) == 0 && tcgetattr(pair.master, &same) == 0);
  EXPECT(memcmp(&modes, &same, sizeof modes) == 0 && tcsetattr(pair.slave, 9, &modes) == -1);
  EXPECT(tcdrain(pair.slave) == 0 && tcsendbreak(pair.slave, 0) == 0);
  /* Input that was typed in raw mode can be read in canonical mode, and the other way round. */
  set_modes(0, 0, 0);
  EXPECT(types(pair.master, "raw\n"));
  modes.c_lflag = ICANON;
  EXPECT(tcsetattr(pair.slave, TCSANOW, &modes) == 0 && reads(pair.slave, "raw\n"));
  EXPECT(types(pair.master, "half"));
  modes.c_lflag = 0;
  EXPECT(tcsetattr(pair.slave, TCSANOW, &modes) == 0 && reads(pair.slave, "half"));
}

void test_modes(void) {
  pair = open_pair();
  lines_are_edited();
  echoes();
  input_is_mapped();
  bytes_are_timed();
  output_is_stopped();
  modes_change();
  close_pair(&pair);
}
