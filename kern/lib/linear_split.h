// Splits a bucket of a hash table. The trace table and the table of stack counts use this function.
// Both tables use linear hashing, but not linear_hash.h, whose items are hashed and linked in
// another way.
#pragma once

// Moves items from the chain `from` to the empty chain `to`: all items for which moves(item) is
// true. next_of(item) returns the item after `item`; link(item, next) sets it. Inlined, because
// allocator hooks call this function.
template <typename Item, typename Moves, typename NextOf, typename Link>
[[gnu::always_inline]] inline void linear_split(Item*& from, Item*& to, Moves moves, NextOf next_of,
                                                Link link) {
  Item* moved = nullptr;
  Item* kept = nullptr;
  for (Item* item = from; item;) {
    Item* const next = next_of(item);
    Item*& list = moves(item) ? moved : kept;
    link(item, list);
    list = item;
    item = next;
  }
  from = kept;
  to = moved;
}
