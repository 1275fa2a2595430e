// Tests file streams, std::filesystem, clocks and random numbers.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "cxxtest.h"

namespace fs = std::filesystem;

static void paths() {
  fs::path path = "/a/b/../c.tar.gz";
  CHECK(path.filename() == "c.tar.gz" && path.extension() == ".gz" && path.stem() == "c.tar");
  CHECK(path.lexically_normal() == "/a/c.tar.gz" && path.parent_path() == "/a/b/..");
  CHECK(fs::path("x") / "y" == "x/y" &&
        fs::path("/etc/x").lexically_relative("/bin") == "../etc/x");
}

static void files() {
  fs::path folder = "/tmp/cxxtest";
  fs::remove_all(folder);
  CHECK(fs::create_directories(folder / "deep/er") && fs::is_directory(folder / "deep"));
  {
    std::ofstream out(folder / "lines");
    for (int i = 0; i < 10000; i++) out << "line " << i << '\n';
    CHECK(out.good());
  }
  std::ifstream in(folder / "lines");
  std::string line;
  int count = 0;
  long sum = 0;
  while (std::getline(in, line)) count++, sum += std::stol(line.substr(5));
  CHECK(count == 10000 && sum == 49995000 && in.eof());
  in.clear();
  in.seekg(-5, std::ios::end);
  CHECK(std::getline(in, line) && line == "9999" &&
        in.tellg() == std::streampos(fs::file_size(folder / "lines")));

  std::ofstream(folder / "lines", std::ios::app) << "end";
  CHECK(fs::file_size(folder / "lines") == 98890 + 3);
  std::fstream both(folder / "lines", std::ios::in | std::ios::out | std::ios::binary);
  both.seekp(5) << "X";
  both.seekg(0);
  CHECK(std::getline(both, line) && line == "line X");

  fs::copy_file(folder / "lines", folder / "deep/copy");
  fs::rename(folder / "deep/copy", folder / "deep/er/moved");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.insert(entry.path().lexically_relative(folder).string() +
                 (entry.is_directory() ? "/" : ""));
  }
  CHECK((names == std::set<std::string>{"deep/", "deep/er/", "deep/er/moved", "lines"}));
  CHECK(fs::canonical(folder / "deep/../lines") == "/tmp/cxxtest/lines");

  try {
    fs::directory_iterator none(folder / "nosuch");
    CHECK(false);
  } catch (const fs::filesystem_error& error) {
    CHECK(error.code() == std::errc::no_such_file_or_directory &&
          error.path1() == folder / "nosuch");
  }
  CHECK(!std::ifstream(folder / "nosuch") && !fs::exists(folder / "nosuch"));
  CHECK(fs::remove_all(folder) == 5 && !fs::exists(folder));

  fs::path before = fs::current_path();
  fs::current_path("/tmp");
  CHECK(fs::current_path() == "/tmp");
  fs::current_path(before);
}

static void clocks() {
  using namespace std::chrono_literals;
  auto before = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(20ms);
  auto passed = std::chrono::steady_clock::now() - before;
  CHECK(passed >= 20ms);
  CHECK(std::chrono::system_clock::now() > std::chrono::sys_days{std::chrono::year{2020} / 1 / 1});
  CHECK(std::chrono::duration_cast<std::chrono::seconds>(90min).count() == 5400);
  std::mt19937 generator(5489);
  generator.discard(9999);
  CHECK(generator() == 4123659995u);
  std::random_device device;
  CHECK(device() != device() || device() != device());
}

void test_files_and_time() {
  paths();
  files();
  clocks();
}
