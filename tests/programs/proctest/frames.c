/* Broken user stacks, which the tracer's walk of frames must survive. */
#include "proctest.h"

#define PAGE 4096

/* Makes a system call with the frame pointer `frame` and the stack pointer `stack`. */
long call_with_frame(long number, long a, const void* b, long c, const void* frame,
                     const void* stack);
/* Writes to `address` with the frame pointer `frame`. The write causes a page fault if the page is
 * not present yet. */
void touch_with_frame(char* address, const void* frame);
__asm__(
    "        .text\n"
    "        .globl call_with_frame, touch_with_frame\n"
    "        .type call_with_frame, @function\n"
    "        .type touch_with_frame, @function\n"
    "call_with_frame:\n"
    "        pushq %rbp\n"
    "        pushq %rbx\n"
    "        movq %rsp, %rbx\n"
    "        movq %rdi, %rax\n"
    "        movq %rsi, %rdi\n"
    "        movq %rdx, %rsi\n"
    "        movq %rcx, %rdx\n"
    "        movq %r8, %rbp\n"
    "        movq %r9, %rsp\n"
    "        syscall\n"
    "        movq %rbx, %rsp\n"
    "        popq %rbx\n"
    "        popq %rbp\n"
    "        ret\n"
    "        .size call_with_frame, . - call_with_frame\n"
    "touch_with_frame:\n"
    "        pushq %rbp\n"
    "        movq %rsi, %rbp\n"
    "        movb $1, (%rdi)\n"
    "        popq %rbp\n"
    "        ret\n"
    "        .size touch_with_frame, . - touch_with_frame\n");

struct frame {
  const void* next;
  long return_address;
};

static char* map(long size, int protection) {
  return (char*)STELE_CALL(mmap, 0, size, protection, ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS, -1, 0);
}

static void write_with_frame(int file, const char* command, const void* frame, const void* stack) {
  long length = (long)strlen(command);
  EXPECT(call_with_frame(ABI_SYS_write, file, command, length, frame, stack) == length);
}
static void leak_with_frame(int file, const void* frame, const void* stack) {
  write_with_frame(file, "leak debug_64 1", frame, stack);
}

/* Makes system calls with many different frame pointers. The calls leak objects of the cache
 * debug_64. Prints the number of leaked objects. */
int make_frames(void) {
  int file = open("#debug/alloc", O_WRONLY);
  /* The stack of the calls. The stack pointer is the lowest address of `memory`, so frames can be
   * anywhere in `memory`. */
  char* memory = map(16 * PAGE, ABI_PROT_READ | ABI_PROT_WRITE);
  EXPECT(file >= 0 && (long)memory > 0);
  if (test_failures) return 1;
  int leaks = 0;

  const long garbage[] = {0,
                          1,
                          8,
                          0x1000,
                          -1,
                          -8,
                          -16,
                          0x7ffffffffff0,
                          0x7ffffffffff8,
                          0x800000000000,
                          0x800000000008,
                          (long)0x8000000000000000,
                          (long)0xffff800000000000,
                          (long)0xffffffff80100000,
                          0x123456789abcdef};
  for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
    leak_with_frame(file, (const void*)garbage[i], memory);
    touch_with_frame(memory + i % 4 * PAGE, (const void*)garbage[i]);
    leaks++;
  }

  struct frame* frames = (struct frame*)(memory + 4 * PAGE);
  /* 200 frames, each above the previous one: more than the tracer records. */
  for (long i = 0; i < 200; i++) frames[i] = (struct frame){&frames[i + 1], 0x1000 + i};
  write_with_frame(file, "leak debug_64 3", frames, memory);
  /* First cuts the chain to exactly as many frames as the tracer records, so the recorded stack is
   * the same as with 200 frames. Then cuts off one more frame. */
  frames[14].next = 0;
  leak_with_frame(file, frames, memory);
  frames[13].next = 0;
  leak_with_frame(file, frames, memory);
  leaks += 5;
  /* A frame that points to itself, two frames that point to each other, and a frame below the stack
   * pointer. */
  frames[0] = (struct frame){&frames[0], 0x2000};
  leak_with_frame(file, frames, memory);
  frames[1] = (struct frame){&frames[2], 0x3000};
  frames[2] = (struct frame){&frames[1], 0x3001};
  leak_with_frame(file, &frames[1], memory);
  leak_with_frame(file, &frames[1], &frames[3]);
  /* The first frame is good, but its pointer to the next frame is garbage. */
  frames[0] = (struct frame){(const void*)0xffffffff80100000, 0x4000};
  leak_with_frame(file, frames, memory);
  frames[0] = (struct frame){(char*)&frames[8] + 4, 0x4001};
  leak_with_frame(file, frames, memory);
  /* A frame in an untouched page, a frame in an unreadable page, and a frame whose second half is
   * beyond the end of a mapping. */
  leak_with_frame(file, memory + 8 * PAGE, memory);
  char* closed = map(PAGE, 0);
  EXPECT((long)closed > 0);
  leak_with_frame(file, closed, closed < memory ? closed : memory);
  EXPECT(STELE_CALL(munmap, memory + 11 * PAGE, PAGE) == 0);
  memory[10 * PAGE] = 1;
  leak_with_frame(file, memory + 11 * PAGE - 8, memory);
  leaks += 8;

  close(file);
  printf("%d\n", leaks);
  return test_failures != 0;
}

/* Leaks nine objects of debug_64. Makes several calls with the same frames, so that the kernel
 * caches their stack. Then changes the frames and makes more calls. At last unmaps one of the
 * frames and makes another call. */
int make_known_frames(void) {
  int file = open("#debug/alloc", O_WRONLY);
  char* memory = map(2 * PAGE, ABI_PROT_READ | ABI_PROT_WRITE);
  EXPECT(file >= 0 && (long)memory > 0);
  if (test_failures) return 1;
  struct frame* frames = (struct frame*)(memory + 256);
  for (long i = 0; i < 5; i++) frames[i] = (struct frame){&frames[i + 1], 0x5000 + i};
  frames[4].next = 0;
  for (int i = 0; i < 3; i++) leak_with_frame(file, frames, memory);
  frames[4].return_address = 0x5104;
  leak_with_frame(file, frames, memory);
  frames[4].next = &frames[5];
  frames[5] = (struct frame){0, 0x5005};
  leak_with_frame(file, frames, memory);
  struct frame* last = (struct frame*)(memory + PAGE);
  frames[0] = (struct frame){last, 0x6000};
  *last = (struct frame){0, 0x6001};
  for (int i = 0; i < 3; i++) leak_with_frame(file, frames, memory);
  EXPECT(STELE_CALL(munmap, last, PAGE) == 0);
  leak_with_frame(file, frames, memory);
  close(file);
  return test_failures != 0;
}
