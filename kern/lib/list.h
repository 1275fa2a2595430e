// Intrusive doubly linked list: the links lie in the element, so that linking never allocates and
// never fails.
#pragma once

#include <cstddef>

struct ListNode {
  ListNode* next = nullptr;
  ListNode* prev = nullptr;

  bool linked() const { return next != nullptr; }
  // Takes the element out of its list. Only when linked().
  void unlink() {
    prev->next = next;
    next->prev = prev;
    next = prev = nullptr;
  }
};

// A circular list of T, linked through T's member `Member`. The caller provides the lock.
template <typename T, ListNode T::*Member>
class List {
 public:
  constexpr List() = default;
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  bool empty() const { return head_.next == nullptr || head_.next == &head_; }
  void push_back(T& element) { insert(head().prev, &(element.*Member)); }
  void push_front(T& element) { insert(&head(), &(element.*Member)); }
  static void insert_before(T& position, T& element) {
    insert((position.*Member).prev, &(element.*Member));
  }
  T* front() { return empty() ? nullptr : owner(head_.next); }
  T* back() { return empty() ? nullptr : owner(head_.prev); }
  // The element after `element`; nullptr for the last.
  T* next(T& element) {
    ListNode* const node = (element.*Member).next;
    return node == &head_ ? nullptr : owner(node);
  }
  T* pop_front() {
    T* first = front();
    if (first) (first->*Member).unlink();
    return first;
  }
  static void remove(T& element) { (element.*Member).unlink(); }

  // Iteration. The loop may remove the current element: the iterator has already read the pointer
  // to the next one.
  template <typename Element>
  class IteratorOf {
   public:
    explicit IteratorOf(ListNode* at) : at_(at), next_(at ? at->next : nullptr) {}
    Element& operator*() const { return *owner(at_); }
    IteratorOf& operator++() {
      at_ = next_;
      next_ = at_->next;
      return *this;
    }
    bool operator!=(const IteratorOf& other) const { return at_ != other.at_; }

   private:
    ListNode* at_;
    ListNode* next_;
  };
  using Iterator = IteratorOf<T>;
  Iterator begin() { return Iterator(head().next); }
  Iterator end() { return Iterator(&head()); }
  // The const version cannot set up the links of a list that was never used.
  IteratorOf<const T> begin() const {
    return IteratorOf<const T>(head_.next ? head_.next : end_node());
  }
  IteratorOf<const T> end() const { return IteratorOf<const T>(end_node()); }

 private:
  ListNode& head() {
    if (!head_.next) head_.next = head_.prev = &head_;
    return head_;
  }
  ListNode* end_node() const { return const_cast<ListNode*>(&head_); }
  static void insert(ListNode* after, ListNode* node) {
    node->next = after->next;
    node->prev = after;
    after->next->prev = node;
    after->next = node;
  }
  static T* owner(ListNode* node) {
    const auto offset =
        reinterpret_cast<std::size_t>(&(reinterpret_cast<T*>(0x1000)->*Member)) - 0x1000;
    return reinterpret_cast<T*>(reinterpret_cast<char*>(node) - offset);
  }

  ListNode head_{};
};
