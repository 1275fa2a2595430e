// Tests exceptions, run-time type information, and the end of a program that does not catch an
// exception.
#include <signal.h>
#include <sys/wait.h>

#include <any>
#include <cerrno>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <typeinfo>
#include <vector>

#include "cxxtest.h"

namespace {

int guards;
struct Guard {
  Guard() { guards++; }
  ~Guard() { guards--; }
  Guard(const Guard&) = delete;
};

struct Special : std::runtime_error {
  explicit Special(int value) : std::runtime_error("special"), value_(value) {}
  int value_;
};

// Throws after `depth` nested calls. The exception must destroy a Guard in each call's frame.
[[gnu::noinline]] int descend(int depth) {
  Guard guard;
  if (depth == 0) throw Special(guards);
  return descend(depth - 1) + 1;
}

struct Parts {
  explicit Parts(bool fails) {
    if (fails) throw std::invalid_argument("no parts");
  }
  Guard first_;
};
struct Whole {
  Whole() : second_(true) {}
  Parts first_{false};
  Guard guard_;
  Parts second_;
};

struct Shape {
  virtual ~Shape() = default;
};
struct Circle : Shape {};
struct Square : Shape {};
struct Named {
  virtual ~Named() = default;
  std::string name_ = "named";
};
struct Both : Circle, Named {};

}  // namespace

static void throwing() {
  int caught = 0;
  try {
    descend(100);
  } catch (const std::logic_error&) {
    caught = -1;
  } catch (const Special& special) {
    caught = special.value_;
  }
  CHECK(caught == 101 && guards == 0);

  std::string passed;
  try {
    try {
      try {
        throw Special(1);
      } catch (const std::exception& error) {
        passed += "inner ";
        throw;
      }
    } catch (const Special& special) {
      passed += "outer ";
      std::throw_with_nested(std::logic_error("around"));
    }
  } catch (const std::logic_error& error) {
    passed += error.what();
    try {
      std::rethrow_if_nested(error);
    } catch (const Special& special) {
      passed += std::string(" ") + special.what();
    }
  }
  CHECK(passed == "inner outer around special");

  bool thrown = false;
  try {
    Whole whole;
  } catch (const std::invalid_argument& error) {
    thrown = std::string(error.what()) == "no parts";
  }
  CHECK(thrown && guards == 0);

  std::exception_ptr kept;
  try {
    throw 17;
  } catch (...) {
    kept = std::current_exception();
  }
  int value = 0;
  try {
    std::rethrow_exception(kept);
  } catch (int number) {
    value = number;
  }
  CHECK(value == 17 && std::uncaught_exceptions() == 0);

  // A destructor that runs because of one exception throws another one, and catches it.
  static int inside;
  struct Busy {
    ~Busy() {
      inside = std::uncaught_exceptions();
      try {
        throw 1;
      } catch (int) {
        inside *= 10;
      }
    }
  };
  try {
    Busy busy;
    throw 2;
  } catch (int number) {
    CHECK(number == 2 && inside == 10);
  }

  int rounds = 0;
  for (int i = 0; i < 10000; i++) {
    try {
      descend(3);
    } catch (const Special&) {
      rounds++;
    }
  }
  CHECK(rounds == 10000 && guards == 0);
}

template <typename Error>
static bool throws(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error&) {
    return true;
  } catch (...) {
  }
  return false;
}

static void library_errors() {
  static volatile std::size_t huge = 1ul << 50;
  static volatile long negative = -1;
  char* volatile kept = nullptr;  // volatile, so that the compiler keeps the allocation
  CHECK(throws<std::bad_alloc>([&] { kept = new char[huge]; }));
  CHECK(throws<std::bad_array_new_length>([] { delete[] new int[negative]; }));
  CHECK(new (std::nothrow) char[huge] == nullptr);
  CHECK(throws<std::length_error>([] { std::vector<int>().reserve(~0ul); }));
  CHECK(throws<std::out_of_range>([] { (void)std::vector<int>(3).at(3); }));
  CHECK(throws<std::out_of_range>([] { (void)std::stoi("99999999999"); }));
  CHECK(throws<std::bad_function_call>([] { std::function<void()>()(); }));
  CHECK(throws<std::bad_any_cast>([] { (void)std::any_cast<int>(std::any(1.0)); }));
  try {
    throw std::system_error(ENOENT, std::generic_category(), "opening");
  } catch (const std::system_error& error) {
    CHECK(error.code() == std::errc::no_such_file_or_directory);
    CHECK(std::string(error.what()) == "opening: No such file or directory");
  }
}

static void types() {
  std::unique_ptr<Shape> shape = std::make_unique<Both>();
  CHECK(dynamic_cast<Circle*>(shape.get()) != nullptr &&
        dynamic_cast<Square*>(shape.get()) == nullptr);
  auto* named = dynamic_cast<Named*>(shape.get());
  CHECK(named != nullptr && named->name_ == "named" && dynamic_cast<void*>(named) == shape.get());
  CHECK(typeid(*shape) == typeid(Both) && typeid(*shape) != typeid(Circle));
  CHECK(std::string(typeid(int).name()) == "i");
  CHECK(throws<std::bad_cast>([&] { (void)dynamic_cast<Square&>(*shape); }));
  Shape* volatile none = nullptr;
  CHECK(throws<std::bad_typeid>([&] { (void)typeid(*none).name(); }));
}

static void not_caught() {
  std::string errors;
  int status = in_child([] { throw std::runtime_error("nobody listens"); }, errors);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(errors ==
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  nobody "
        "listens\n");

  errors.clear();
  status = in_child([]() noexcept { descend(2); }, errors);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(errors.starts_with(
      "terminate called after throwing an instance of '(anonymous namespace)::Special'"));

  errors.clear();
  status = in_child(
      [] {
        std::set_terminate([] {
          std::cerr << "asked" << std::endl;
          std::abort();
        });
        throw 1;
      },
      errors);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && errors == "asked\n");
}

void test_exceptions() {
  long before = outstanding_objects();
  throwing();
  library_errors();
  types();
  CHECK(outstanding_objects() == before);
  not_caught();
}
