// The line discipline, after POSIX chapter 11 (General Terminal Interface): handles what is typed.
// The calls of programs are in terminal_use.cc.
//
// In canonical mode, typed bytes collect in `line_`, where the user can erase them. A line end
// moves the line to `input_`, from which programs read. In other modes bytes go to `input_` at
// once. ^D moves the line without a line end, and puts a mark (kEndOfFile) after the line. A read
// ends at the mark. If the mark is the first item, the read returns 0: end of file. A change to a
// mode that is not canonical removes the marks. Control characters are echoed as ^X.
//
// The spinlock lock_ guards all data of a terminal. receive() takes lock_ in interrupts. lock_ is
// held while one byte is handled, its echo is sent, or the bytes of one read are copied. Output is
// cooked in pieces of 256 bytes, so that writers do not hold lock_ for long. Signals are sent after
// lock_ has been released, because a task that holds lock_ must not take the process table's lock.

#include "drivers/dev/terminal.h"

#include <algorithm>
#include <utility>

#include "drivers/dev/slow_write.h"

namespace {

bool is_control(uint8_t byte) {
  return byte < 32 || byte == 127;
}

bool is_blank(uint8_t byte) {
  return byte == ' ' || byte == '\t';
}

}  // namespace

int Terminal::signal_of(uint8_t byte) const {
  if (!has(ABI_ISIG)) return 0;
  if (is(byte, ABI_VINTR)) return ABI_SIGINT;
  if (is(byte, ABI_VQUIT)) return ABI_SIGQUIT;
  if (is(byte, ABI_VSUSP)) return ABI_SIGTSTP;
  return 0;
}

void Terminal::receive(uint8_t byte) {
  int signal = 0;
  {
    Guard guard(lock_);
    if (!map_input(byte) || controls_flow(byte)) return;
    signal = signal_of(byte);
    if (!signal) {
      take(byte);
    } else {
      if (!has(ABI_NOFLSH)) discard_input();
      echo(byte);
    }
  }
  if (signal) job_signal(job, signal);
}

// Applies the input modes to a byte before any other handling: strips the eighth bit, maps CR and
// NL, or drops CR. False if the byte is dropped.
bool Terminal::map_input(uint8_t& byte) const {
  if (modes_.iflag & ABI_ISTRIP) byte &= 0x7f;
  if (literal_) return true;
  if (byte == '\r') {
    if (modes_.iflag & ABI_IGNCR) return false;
    if (modes_.iflag & ABI_ICRNL) byte = '\n';
  } else if (byte == '\n' && (modes_.iflag & ABI_INLCR)) {
    byte = '\r';
  }
  return true;
}

bool Terminal::controls_flow(uint8_t byte) {
  if (!(modes_.iflag & ABI_IXON) || literal_) return false;
  if (is(byte, ABI_VSTART) || is(byte, ABI_VSTOP)) {
    stop_output(is(byte, ABI_VSTOP));
    return true;
  }
  if (modes_.iflag & ABI_IXANY) stop_output(false);
  return false;
}

void Terminal::stop_output(bool stop) {
  stopped_ = stop;
  if (!stop) writers_.wake_all();
}

void Terminal::take(uint8_t byte) {
  if (is_extended(byte, ABI_VLNEXT)) {
    literal_ = true;
    if (has(ABI_ECHO) && has(ABI_ECHOCTL)) send("^\b", 2);
    return;
  }
  if (has(ABI_ICANON)) {
    if (edit(byte)) readers_.wake_all();
  } else {
    echo(byte);
    push(byte);
    readers_.wake_all();
  }
  literal_ = false;
}

// Handles a byte in canonical mode. True if the byte moved the line to `input_`: readers must be
// woken.
bool Terminal::edit(uint8_t byte) {
  if (is(byte, ABI_VERASE) || (byte == '\b' && !literal_)) {
    erase();
  } else if (is(byte, ABI_VKILL)) {
    kill_line(byte);
  } else if (is_extended(byte, ABI_VWERASE)) {
    erase_word();
  } else if (is_extended(byte, ABI_VREPRINT)) {
    echo(byte);
    reprint();
  } else if (is(byte, ABI_VEOF)) {
    finish_line();
    push(kEndOfFile);
    return true;
  } else if (byte == '\n' || is(byte, ABI_VEOL) || is(byte, ABI_VEOL2)) {
    if (byte == '\n' && !has(ABI_ECHO) && has(ABI_ECHONL)) send_cooked("\n", 1);
    echo(byte);
    line_[line_length_++] = byte;
    finish_line();
    if (byte != '\n') push(kEndOfFile);  // the mark ends a read, as "\n" does
    return true;
  } else {
    add(byte);
  }
  return false;
}

void Terminal::add(uint8_t byte) {
  if (line_length_ < kLineSize - 1) {  // one byte stays free for the line end
    echo(byte);
    line_[line_length_++] = byte;
  } else if (has(ABI_ECHO)) {
    send("\a", 1);
  }
}

void Terminal::erase() {
  if (line_length_ == 0) return;
  const uint8_t byte = line_[--line_length_];
  if (!has(ABI_ECHO) || !has(ABI_ECHOE)) return;
  send("\b \b", 3);
  if (is_control(byte) && byte != '\t' && has(ABI_ECHOCTL)) send("\b \b", 3);
}

void Terminal::kill_line(uint8_t byte) {
  if (has(ABI_ECHOKE) && has(ABI_ECHOE)) {
    while (line_length_ > 0) erase();
    return;
  }
  line_length_ = 0;
  echo(byte);
  if (has(ABI_ECHO) && has(ABI_ECHOK)) send_cooked("\n", 1);
}

void Terminal::erase_word() {
  while (line_length_ > 0 && is_blank(line_[line_length_ - 1])) erase();
  while (line_length_ > 0 && !is_blank(line_[line_length_ - 1])) erase();
}

void Terminal::reprint() {
  if (!has(ABI_ECHO)) return;
  send_cooked("\n", 1);
  for (size_t i = 0; i < line_length_; ++i) echo(line_[i]);
}

void Terminal::finish_line() {
  for (size_t i = 0; i < line_length_; ++i) push(line_[i]);
  line_length_ = 0;
}

// Appends to the input. An item that does not fit is lost, as on any terminal.
void Terminal::push(uint16_t item) {
  if (count_ == kInputSize) return;
  input_[(head_ + count_++) % kInputSize] = item;
  if (item == '\n' || item == kEndOfFile) ++lines_;
}

void Terminal::discard_input() {
  line_length_ = count_ = lines_ = 0;
  typists_.wake_all();
}

void Terminal::echo(uint8_t byte) {
  if (!has(ABI_ECHO)) return;
  const char plain = static_cast<char>(byte);
  if (!is_control(byte) || byte == '\n' || byte == '\t' || !has(ABI_ECHOCTL)) {
    send_cooked(&plain, 1);
    return;
  }
  const char shown[2] = {'^', static_cast<char>(byte ^ 0x40)};
  send(shown, 2);
}

// `size` is at most kWritePiece.
void Terminal::send_cooked(const char* data, size_t size) {
  if (!(modes_.oflag & ABI_OPOST) || !(modes_.oflag & (ABI_ONLCR | ABI_OCRNL))) {
    send(data, size);
    return;
  }
  char cooked[kWritePiece];
  size_t length = 0;
  for (size_t i = 0; i < size; ++i) {
    if (length + 2 > sizeof(cooked)) send(cooked, std::exchange(length, 0));
    char byte = data[i];
    if (byte == '\n' && (modes_.oflag & ABI_ONLCR)) cooked[length++] = '\r';
    if (byte == '\r' && (modes_.oflag & ABI_OCRNL)) byte = '\n';
    cooked[length++] = byte;
  }
  send(cooked, length);
}

// Takes at most `size` bytes from the input. In canonical mode stops at the end of the first line.
size_t Terminal::take_input(char* buffer, size_t size) {
  const bool canonical = has(ABI_ICANON);
  size_t done = 0;
  while (count_ > 0) {
    const uint16_t item = input_[head_];
    // A mark is taken even if the buffer is full. Otherwise the next read would find the mark first
    // and report an end of file.
    if (done == size && item != kEndOfFile) break;
    head_ = (head_ + 1) % kInputSize;
    --count_;
    const bool line_end = item == '\n' || item == kEndOfFile;
    if (line_end) --lines_;
    if (item != kEndOfFile) buffer[done++] = static_cast<char>(item);
    if (line_end && canonical) break;
  }
  typists_.wake_all();
  return done;
}

bool Terminal::ready(size_t wanted) const {
  // A full input is ready even without a line end: writers to the master wait for room, so no line
  // end can arrive.
  if (has(ABI_ICANON)) return lines_ > 0 || is_full();
  return count_ >= wanted;
}

// Removes the marks from the input. At most kInputSize steps.
void Terminal::drop_marks() {
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    const uint16_t item = input_[(head_ + i) % kInputSize];
    if (item == kEndOfFile) {
      --lines_;
    } else {
      input_[(head_ + kept++) % kInputSize] = item;
    }
  }
  count_ = kept;
}

void Terminal::set_modes(const abi_termios& modes, bool flush) {
  const bool was_canonical = has(ABI_ICANON);
  modes_ = modes;
  if (flush) discard_input();
  if (!has(ABI_ICANON)) {
    finish_line();
    // Only a read in canonical mode ends at a mark.
    if (was_canonical) drop_marks();
  }
  if (!(modes_.iflag & ABI_IXON)) stop_output(false);
  readers_.wake_all();
}

void Terminal::hang_up_files() {
  ++hang_ups_;
  files_lost();
  discard_input();
  stop_output(false);
  readers_.wake_all();
  writers_.wake_all();
}

void Terminal::hang_up() {
  Guard guard(lock_);
  hang_up_files();
}
