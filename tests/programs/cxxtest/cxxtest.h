// cxxtest: checks the C++ library in the guest. TAP on standard output; status 1 if a check fails.
#pragma once

#include <functional>
#include <string>

void check(bool good, const char* what, const char* file, int line);
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)

// Runs `body` in a child process, appends the child's standard error to `errors`, and returns the
// child's wait status.
int in_child(const std::function<void()>& body, std::string& errors);

// The number of objects that operator new has allocated and operator delete has not freed.
long outstanding_objects();

void test_text();
void test_containers();
void test_exceptions();
void test_statics();
void test_files_and_time();
void test_frames();
