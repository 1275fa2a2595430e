// The split of a bucket, for the trace table and the table of stack counts. These grow as
// linear_hash.h does, but hash and link their items in another way.
#pragma once

// Moves the items of the chain `from` for which moves(item) is true to the empty chain `to`.
// next_of(item) returns the item after `item`; link(item, next) sets it. Inlined, since allocator
// hooks call this function.
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
