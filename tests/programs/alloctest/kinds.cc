// The kinds of leaks. Each kind is a function that is not inlined, so that the function's name is
// in the first line of the leak's stack. Most kinds allocate objects of 1000 bytes, leak every
// other object and free the other half.
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <string>

#include "alloctest.h"

#define KIND(name) extern "C" __attribute__((noinline)) void leak_##name(std::size_t bytes)

namespace {

constexpr std::size_t kPiece = 1000, kAlignment = 512;

// Leaks `bytes` bytes in objects from `allocate`, and allocates and frees as many further objects.
template <typename Allocate, typename Free>
__attribute__((always_inline)) inline void pieces(std::size_t bytes, Allocate allocate,
                                                  Free release) {
  for (std::size_t done = 0; done < bytes; done += kPiece) {
    void* const kept = must(allocate());
    void* const freed = must(allocate());
    forgotten = kept;
    release(freed);
  }
}

void* map(std::size_t size) {
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) _exit(3);
  return memory;
}
void unmap(void* memory, std::size_t size) {
  if (munmap(memory, size) != 0) _exit(3);
}

}  // namespace

KIND(malloc) {
  pieces(
      bytes, [] { return std::malloc(kPiece); }, std::free);
}
// Leaks 16 bytes each second, as in the example of memleak's manual page.
KIND(slowly) {
  for (std::size_t done = 0; done < bytes; done += 16) {
    forgotten = must(std::malloc(16));
    sleep(1);
  }
}
KIND(calloc) {
  pieces(
      bytes, [] { return std::calloc(kPiece / 10, 10); }, std::free);
}
// Calls realloc three times: with a null pointer, to shrink the object in place, and to grow the
// object. The growing object must move, because `wall` follows it.
KIND(realloc) {
  pieces(
      bytes,
      [] {
        void* small = must(std::realloc(nullptr, 10));
        void* const wall = must(std::malloc(10));
        small = must(std::realloc(small, 5));
        small = must(std::realloc(small, kPiece));
        std::free(wall);
        return small;
      },
      std::free);
}
KIND(reallocarray) {
  pieces(
      bytes, [] { return reallocarray(nullptr, kPiece / 10, 10); }, std::free);
}
KIND(reallocf) {
  pieces(
      bytes, [] { return reallocf(std::malloc(10), kPiece); }, std::free);
}
KIND(posix_memalign) {
  pieces(
      bytes,
      [] {
        void* memory = nullptr;
        return posix_memalign(&memory, kAlignment, kPiece) == 0 ? memory : nullptr;
      },
      std::free);
}
KIND(aligned_alloc) {
  pieces(
      bytes, [] { return aligned_alloc(kAlignment, kPiece); }, std::free);
}
KIND(memalign) {
  pieces(
      bytes, [] { return memalign(kAlignment, kPiece); }, std::free);
}
KIND(valloc) {
  pieces(
      bytes, [] { return valloc(kPiece); }, std::free);
}
KIND(pvalloc) {
  pieces(
      bytes, [] { return pvalloc(kPiece); }, std::free);
}
KIND(strdup) {
  const std::string text(kPiece - 1, 'x');
  pieces(
      bytes, [&] { return strdup(text.c_str()); }, std::free);
}
KIND(new) {
  pieces(
      bytes, [] { return ::operator new(kPiece); }, [](void* p) { ::operator delete(p); });
}
KIND(new_array) {
  pieces(
      bytes, [] { return ::operator new[](kPiece); }, [](void* p) { ::operator delete[](p); });
}
KIND(new_nothrow) {
  pieces(
      bytes, [] { return ::operator new(kPiece, std::nothrow); },
      [](void* p) { ::operator delete(p, kPiece); });
}
KIND(new_aligned) {
  constexpr std::align_val_t kTo{64};
  pieces(
      bytes, [] { return ::operator new(kPiece, kTo); },
      [](void* p) { ::operator delete(p, kTo); });
}
KIND(new_array_aligned) {
  constexpr std::align_val_t kTo{64};
  pieces(
      bytes, [] { return ::operator new[](kPiece, kTo); },
      [](void* p) { ::operator delete[](p, kTo); });
}
KIND(mmap) {
  forgotten = map(bytes);
  unmap(map(bytes), bytes);
}
// Maps `bytes` and two more pages, and unmaps two pages in the middle.
KIND(part_of_mmap) {
  constexpr std::size_t kPage = 4096;
  char* const memory = static_cast<char*>(map(bytes + 2 * kPage));
  unmap(memory + kPage, 2 * kPage);
  forgotten = memory;
}
// Makes `bytes` allocations of 64 bytes, and frees each one before the next. So nothing leaks.
KIND(one_by_one) {
  for (std::size_t i = 0; i < bytes; i++) {
    forgotten = must(std::malloc(64));
    std::free(forgotten);
  }
}
// Frees memory that was allocated before the program said `ready` (option --go), so that memleak
// has not seen the allocation. Leaks nothing.
KIND(free_old) {
  static_cast<void>(bytes);
  std::free(old_memory);
}
// Leaks one object of `bytes` bytes. Then makes allocations that fail, which are no leaks. A failed
// realloc leaves the old object allocated.
KIND(failing) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 40;
  volatile std::size_t too_much = kTooMuch;
  forgotten = std::malloc(bytes);
  void* memory = nullptr;
  if (std::malloc(too_much) != nullptr || std::calloc(too_much, 2) != nullptr) _exit(3);
  if (std::realloc(forgotten, too_much) != nullptr) _exit(3);
  if (posix_memalign(&memory, kAlignment, too_much) == 0) _exit(3);
  if (::operator new(too_much, std::nothrow) != nullptr) _exit(3);
  try {
    forgotten = ::operator new(too_much);
    _exit(3);
  } catch (const std::bad_alloc&) {
  }
  if (reallocf(std::malloc(10), too_much) != nullptr) _exit(3);
}
// The child frees its copy of the object. The parent's object stays allocated.
KIND(before_fork) {
  void* const memory = must(std::malloc(bytes));
  forgotten = memory;
  const pid_t child = fork();
  if (child == 0) {
    std::free(memory);
    forgotten = std::malloc(77);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) _exit(3);
}
// Leaks memory, then executes this program again: execve() frees the old program's memory, and with
// it the leak.
KIND(before_exec) {
  forgotten = must(std::malloc(bytes));
  execl("/bin/alloctest", "alloctest", "--leak", "2000", "calloc", nullptr);
  _exit(3);
}
KIND(before_other_program) {
  forgotten = must(std::malloc(bytes));
  execl("/bin/sleep", "sleep", "1000", nullptr);
  _exit(3);
}
KIND(before_kill) {
  forgotten = must(std::malloc(bytes));
  kill(getpid(), SIGKILL);
}
KIND(pool) {
  pieces(
      bytes, [] { return pool_realloc(pool_malloc(10), kPiece); }, pool_free);
}

#define ENTRY(name) \
  { #name, leak_##name }
const Kind kinds[] = {
    ENTRY(malloc),
    ENTRY(slowly),
    ENTRY(calloc),
    ENTRY(realloc),
    ENTRY(reallocarray),
    ENTRY(reallocf),
    ENTRY(posix_memalign),
    ENTRY(aligned_alloc),
    ENTRY(memalign),
    ENTRY(valloc),
    ENTRY(pvalloc),
    ENTRY(strdup),
    ENTRY(new),
    ENTRY(new_array),
    ENTRY(new_nothrow),
    ENTRY(new_aligned),
    ENTRY(new_array_aligned),
    ENTRY(mmap),
    ENTRY(part_of_mmap),
    ENTRY(one_by_one),
    ENTRY(free_old),
    ENTRY(failing),
    ENTRY(before_fork),
    ENTRY(before_exec),
    ENTRY(before_other_program),
    ENTRY(before_kill),
    ENTRY(pool),
};
const std::size_t kind_count = std::size(kinds);
