/* Linear search and doubly linked queues of <search.h>. newlib has the trees and hash tables. */
#include <search.h>
#include <string.h>

void* lfind(const void* key, const void* base, size_t* count, size_t size,
            int (*compare)(const void*, const void*)) {
  const char* element = base;
  for (size_t i = 0; i < *count; i++, element += size) {
    if (compare(key, element) == 0) return (void*)element;
  }
  return NULL;
}

void* lsearch(const void* key, void* base, size_t* count, size_t size,
              int (*compare)(const void*, const void*)) {
  void* found = lfind(key, base, count, size, compare);
  if (found != NULL) return found;
  return memcpy((char*)base + (*count)++ * size, key, size);
}

/* Each element of a queue begins with these two pointers. */
struct element {
  struct element *next, *previous;
};

void insque(void* inserted, void* after) {
  struct element *element = inserted, *previous = after;
  if (previous == NULL) {
    element->next = element->previous = NULL;
    return;
  }
  element->next = previous->next;
  element->previous = previous;
  if (element->next != NULL) element->next->previous = element;
  previous->next = element;
}

void remque(void* removed) {
  struct element* element = removed;
  if (element->next != NULL) element->next->previous = element->previous;
  if (element->previous != NULL) element->previous->next = element->next;
}
