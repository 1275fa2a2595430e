/* random() is an additive feedback generator: x[i] = x[i - degree] + x[i - separation] modulo 2^32.
 * The result is x[i] without its lowest bit. The size of the state array chooses one of four pairs
 * of degree and separation (Knuth, The Art of Computer Programming, volume 2, 3.2.2). For the
 * smallest array, random() is a linear congruential generator. Seeding fills the array by x * 16807
 * mod (2^31 - 1), and drops the first 10 * degree results. The same seed gives the same sequence as
 * in the BSD and GNU libraries.
 *
 * The first word of a state array has its kind (the index in `kinds`) and the saved position.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/lock.h>

static const struct kind {
  size_t bytes; /* minimum size of a state array */
  int degree, separation;
} kinds[] = {{8, 0, 0}, {32, 7, 3}, {64, 15, 1}, {128, 31, 3}, {256, 63, 1}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int32_t own_state[32];
static int32_t* words; /* the current state array after its first word; NULL before the first use */
static int kind;       /* index in `kinds` */
static int front, rear; /* indices of the words to add next */
__LOCK_INIT(static, lock);

/* Saves the position in the first word of the state array. */
static void save(void) {
  words[-1] = kind == 0 ? 0 : rear * KINDS + kind;
}

static long next(void);

static void fill(unsigned seed) {
  if (words == NULL) {
    words = own_state + 1;
    kind = 3;
  }
  words[0] = seed == 0 ? 1 : (int32_t)seed;
  if (kind == 0) return;
  int degree = kinds[kind].degree;
  for (int i = 1; i < degree; i++) {
    /* 16807 * x mod (2^31 - 1) without overflow (Schrage), for negative x as well. */
    int32_t x = words[i - 1];
    int32_t result = 16807 * (x % 127773) - 2836 * (x / 127773);
    words[i] = result < 0 ? result + INT32_MAX : result;
  }
  front = kinds[kind].separation;
  rear = 0;
  for (int i = 0; i < 10 * degree; i++) next();
}

static long next(void) {
  if (words == NULL) fill(1);
  if (kind == 0) {
    words[0] = (int32_t)(((uint32_t)words[0] * 1103515245u + 12345u) & INT32_MAX);
    return words[0];
  }
  int degree = kinds[kind].degree;
  uint32_t sum = (uint32_t)words[front] + (uint32_t)words[rear];
  words[front] = (int32_t)sum;
  front = (front + 1) % degree;
  rear = (rear + 1) % degree;
  return (long)(sum >> 1);
}

static char* use_new(unsigned seed, char* state, size_t size) {
  if (size < kinds[0].bytes) {
    errno = EINVAL;
    return NULL;
  }
  if (words == NULL) fill(1);
  save();
  int32_t* old = words - 1;
  kind = KINDS - 1;
  while (size < kinds[kind].bytes) kind--;
  words = (int32_t*)state + 1;
  fill(seed);
  save();
  return (char*)old;
}

static char* use_again(char* state) {
  if (words == NULL) fill(1);
  save(); /* `state` may be the current state array */
  int32_t first = *(int32_t*)state;
  int32_t position = first / KINDS;
  if (first < 0 || (position != 0 && position >= kinds[first % KINDS].degree)) {
    errno = EINVAL;
    return NULL;
  }
  int32_t* old = words - 1;
  words = (int32_t*)state + 1;
  kind = first % KINDS;
  if (kind != 0) {
    rear = position;
    front = (position + kinds[kind].separation) % kinds[kind].degree;
  }
  return (char*)old;
}

/* --- The public functions: they take the lock and call the functions above. */

void srandom(unsigned seed) {
  __stele_lock(&lock);
  fill(seed);
  __stele_unlock(&lock);
}
long random(void) {
  __stele_lock(&lock);
  long result = next();
  __stele_unlock(&lock);
  return result;
}
char* initstate(unsigned seed, char* state, size_t size) {
  __stele_lock(&lock);
  char* old = use_new(seed, state, size);
  __stele_unlock(&lock);
  return old;
}
char* setstate(char* state) {
  __stele_lock(&lock);
  char* old = use_again(state);
  __stele_unlock(&lock);
  return old;
}
