// Planted bugs (core/planted.h): objects that nobody needs any more, but that are still reachable.
#pragma once

#ifdef CONFIG_PLANTED_BUGS
// Called when a process has changed its directory. May sleep. The bugs, each with what keeps the
// memory; each call adds an entry, except where the list says otherwise:
// - kept_list: a static list;
// - kept_hash: the chains of a static hash table;
// - kept_slots: an array of pointers, which is a field of an object that stays;
// - kept_tree: a binary tree;
// - kept_chain: a chain of single links that begins in an object that stays;
// - kept_field: a pointer in each of many objects that stay; each call sets one of these pointers;
// - kept_words: an array of words in memory without a type;
// - kept_ring: the last three entries, so that this is no leak;
// - kept_vector: an array that is replaced by one of twice the size when it is full.
void planted_keep();
#else
inline void planted_keep() {}
#endif
