// cxxtest: checks the C++ library in the guest. TAP on standard output; status 1 if a check fails.
#pragma once

#include <functional>
#include <string>

void check(bool good, const char* what, const char* file, int line);
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)

// Runs `body` in a child and returns its wait status; `errors` gets its standard error.
int in_child(const std::function<void()>& body, std::string& errors);

// Objects that operator new gave and operator delete did not take back.
long outstanding_objects();

void test_text();
void test_containers();
void test_exceptions();
void test_statics();
void test_files_and_time();
void test_frames();
