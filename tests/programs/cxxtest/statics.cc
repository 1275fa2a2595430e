// Tests static objects: their constructors run before main, and their destructors after main.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "cxxtest.h"

namespace {

// A constructor adds its object's name to `order`. If `tells` is set, as in the child of
// test_statics(), a destructor writes the name to standard error.
char order[8];
int constructed;
bool tells;

struct Static {
  explicit Static(char name) : name_(name) { order[constructed++] = name_; }
  ~Static() {
    if (tells) write(STDERR_FILENO, &name_, 1);
  }
  char name_;
};

Static first('a');
Static second('b');
[[gnu::init_priority(200)]] Static early('e');

Static& local() {
  static Static on_first_use('l');
  return on_first_use;
}

}  // namespace

[[gnu::constructor(300)]] static void plain_constructor() {
  order[constructed++] = 'p';
}

void test_statics() {
  CHECK(std::string(order) == "epab");
  local();
  local();
  CHECK(std::string(order) == "epabl");
  std::string errors;
  int status = in_child(
      [] {
        tells = true;
        std::atexit([] { std::cerr << "x"; });
        static Static last('z');
        std::exit(3);
      },
      errors);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  CHECK(errors == "zxlbae");
}
