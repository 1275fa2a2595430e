/* Reads a secret from the terminal without echo; without a terminal, from standard input, which
 * musl's function does not read. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

char* getpass(const char* prompt) {
  static char secret[128];
  int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
  int in = terminal >= 0 ? terminal : STDIN_FILENO, out = terminal >= 0 ? terminal : STDERR_FILENO;

  struct termios shown, hidden;
  int is_terminal = tcgetattr(in, &shown) == 0;
  if (is_terminal) {
    hidden = shown;
    hidden.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    tcsetattr(in, TCSAFLUSH, &hidden);
  }
  write(out, prompt, strlen(prompt));

  /* Reads one byte at a time: input after the line belongs to the program. */
  size_t length = 0;
  char byte;
  ssize_t got;
  while ((got = read(in, &byte, 1)) == 1 && byte != '\n') {
    if (length + 1 < sizeof secret) secret[length++] = byte;
  }
  secret[length] = '\0';
  if (is_terminal) {
    write(out, "\n", 1);
    tcsetattr(in, TCSAFLUSH, &shown);
  }
  if (terminal >= 0) close(terminal);
  return got < 0 || (got == 0 && length == 0) ? NULL : secret;
}
