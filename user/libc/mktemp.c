/* Random letters for the names of temporary files. musl has the other functions (musl.mk); its own
 * letters can be guessed. */
#include <string.h>
#include <sys/random.h>

char* __randname(char* letters) {
  static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  unsigned char random[6];
  getrandom(random, sizeof random, 0);
  for (size_t i = 0; i < sizeof random; i++)
    letters[i] = alphabet[random[i] % (sizeof alphabet - 1)];
  return letters;
}
