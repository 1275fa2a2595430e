// Errors as values: Result<T> holds a T or an Errno; TRY returns an error to the caller.
#pragma once

#include <atomic>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "abi/errno.h"

// Headers of the C++ library include <errno.h>, which defines macros with the names of Errno's
// enumerators. This file includes <errno.h> first and undefines the macros. Later includes then do
// not define them again. <system_error>, which uses the macros, must come before that, too;
// freestanding programs do not have it.
#include <errno.h>
#if __STDC_HOSTED__
#include <system_error>
#endif
#undef EPERM
#undef ENOENT
#undef ESRCH
#undef EINTR
#undef EIO
#undef ENXIO
#undef E2BIG
#undef ENOEXEC
#undef EBADF
#undef ECHILD
#undef EAGAIN
#undef ENOMEM
#undef EACCES
#undef EFAULT
#undef EBUSY
#undef EEXIST
#undef EXDEV
#undef ENODEV
#undef ENOTDIR
#undef EISDIR
#undef EINVAL
#undef ENFILE
#undef EMFILE
#undef ENOTTY
#undef ETXTBSY
#undef EFBIG
#undef ENOSPC
#undef ESPIPE
#undef EROFS
#undef EPIPE
#undef ERANGE
#undef ENOSYS
#undef ENOTEMPTY
#undef ENAMETOOLONG
#undef ELOOP
#undef EDEADLK
#undef ENOLCK
#undef ETIMEDOUT
#undef ENOTSUP

// POSIX error numbers, with the values of abi/errno.h.
enum class Errno : int {
#define ERRNO_ENUMERATOR(name, value, message) name = value,
  ABI_ERRNOS(ERRNO_ENUMERATOR)
#undef ERRNO_ENUMERATOR
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(Errno error) : error_(error), ok_(false) {}  // NOLINT: implicit, for a plain `return`
  template <typename U = T>
  requires std::is_convertible_v<U&&, T> Result(U&& value)
      : value_(std::forward<U>(value)), ok_(true) {}  // NOLINT
  Result(Result&& other) : ok_(other.ok_) {
    if (ok_)
      new (&value_) T(std::move(other.value_));
    else
      error_ = other.error_;
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  Result& operator=(Result&& other) {
    if (this != &other) {
      this->~Result();
      new (this) Result(std::move(other));
    }
    return *this;
  }
  ~Result() {
    if (ok_) value_.~T();
  }

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  // May be called only when !ok().
  Errno error() const { return error_; }
  // May be called only when ok().
  T& value() { return value_; }
  T take() { return std::move(value_); }
  T* operator->() { return &value_; }
  T& operator*() { return value_; }

 private:
  union {
    T value_;
    Errno error_;
  };
  bool ok_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() : error_{}, ok_(true) {}
  Result(Errno error) : error_(error), ok_(false) {}  // NOLINT

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  Errno error() const { return error_; }
  void take() {}

 private:
  Errno error_;
  bool ok_;
};

// Evaluates to the value of a Result. If the Result is an error, returns it from the enclosing
// function:
//   int n = TRY(chan.read(...));
#define TRY(expression)                         \
  ({                                            \
    auto try_result = (expression);             \
    if (!try_result) return try_result.error(); \
    try_result.take();                          \
  })
