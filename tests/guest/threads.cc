// Tests the C++20 library's threads, locks, futures and atomics in the guest. thread_test.py builds
// this program with the toolchain's compiler. The program prints a line for each failure, and "ok"
// if there was none.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <queue>
#include <semaphore>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
namespace fs = std::filesystem;

static std::atomic<int> failures = 0;
#define EXPECT(condition)                                         \
  do {                                                            \
    if (!(condition)) {                                           \
      failures++;                                                 \
      std::printf("line %d: not so: %s\n", __LINE__, #condition); \
    }                                                             \
  } while (0)

constexpr int kThreads = 8;

// Calls function(i) in `count` threads.
static void in_threads(int count, const std::function<void(int)>& function) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; i++) threads.emplace_back(function, i);
}

static void mutexes() {
  std::mutex mutex;
  std::recursive_mutex recursive;
  std::timed_mutex timed;
  std::shared_mutex shared;
  std::shared_timed_mutex shared_timed;
  long a = 0, b = 0, c = 0, d = 0, e = 0;
  in_threads(kThreads, [&](int) {
    for (int i = 0; i < 1000; i++) {
      {
        const std::scoped_lock both(mutex, recursive);
        const std::lock_guard again(recursive);
        a++, b++;
      }
      if (timed.try_lock_for(1h)) {
        c++;
        timed.unlock();
      }
      if (i % 4 == 0) {
        const std::unique_lock writing(shared);
        d++;
      } else {
        const std::shared_lock reading(shared);
        EXPECT(d >= 0);
      }
      if (shared_timed.try_lock_until(std::chrono::steady_clock::now() + 1h)) {
        e++;
        shared_timed.unlock();
      }
    }
  });
  EXPECT(a == kThreads * 1000 && b == a && c == a && d == a / 4 && e == a);
  const std::lock_guard held(timed);
  std::jthread([&] {
    const auto before = std::chrono::steady_clock::now();
    EXPECT(!timed.try_lock_for(20ms));
    EXPECT(std::chrono::steady_clock::now() - before >= 20ms);
  });
}

static void conditions() {
  std::mutex mutex;
  std::condition_variable changed;
  std::condition_variable_any any;
  std::queue<int> queue;
  long sum = 0;
  bool stop = false;
  {
    std::vector<std::jthread> takers;
    for (int i = 0; i < 4; i++) {
      takers.emplace_back([&] {
        std::unique_lock lock(mutex);
        for (;;) {
          changed.wait(lock, [&] { return stop || !queue.empty(); });
          if (queue.empty()) return;
          sum += queue.front();
          queue.pop();
        }
      });
    }
    for (int i = 1; i <= 1000; i++) {
      const std::lock_guard lock(mutex);
      queue.push(i);
      changed.notify_one();
    }
    const std::lock_guard lock(mutex);
    stop = true;
    changed.notify_all();
  }
  EXPECT(sum == 1000 * 1001 / 2);
  std::unique_lock lock(mutex);
  EXPECT(changed.wait_for(lock, 10ms) == std::cv_status::timeout);
  EXPECT(changed.wait_until(lock, std::chrono::system_clock::now() + 10ms) ==
         std::cv_status::timeout);
  lock.unlock();

  std::jthread waits([&](const std::stop_token& token) {
    std::unique_lock own(mutex);
    EXPECT(!any.wait(own, token, [] { return false; }));  // request_stop() ends the wait
  });
  waits.request_stop();
  waits.join();
}

struct Failure : std::runtime_error {
  explicit Failure(int number)
      : std::runtime_error("number " + std::to_string(number)), number(number) {}
  int number;
};

static int fails(int depth, int number) {
  if (depth > 0) return fails(depth - 1, number) + 1;
  throw Failure(number);
}

static void exceptions() {
  std::vector<std::future<int>> futures;
  for (int i = 0; i < kThreads; i++)
    futures.push_back(std::async(std::launch::async, [i] { return i % 2 ? fails(i, i) : i; }));
  for (int i = 0; i < kThreads; i++) {
    try {
      const int got = futures[static_cast<std::size_t>(i)].get();
      EXPECT(i % 2 == 0 && got == i);
    } catch (const Failure& failure) {
      EXPECT(i % 2 == 1 && failure.number == i && failure.what() == "number " + std::to_string(i));
    }
  }
  // Throw, catch and throw again in many threads at once.
  std::exception_ptr kept;
  std::mutex mutex;
  std::atomic<int> caught = 0;
  in_threads(kThreads, [&](int number) {
    for (int i = 0; i < 300; i++) {
      try {
        try {
          fails(i % 20, number);
        } catch (const std::exception&) {
          const std::lock_guard lock(mutex);
          kept = std::current_exception();
          throw;
        }
      } catch (const Failure& failure) {
        caught += failure.number == number;
      }
      std::exception_ptr other;
      {
        const std::lock_guard lock(mutex);
        other = kept;
      }
      try {
        std::rethrow_exception(other);
      } catch (const Failure& failure) {
        EXPECT(failure.number >= 0 && failure.number < kThreads);
      }
    }
  });
  EXPECT(caught == kThreads * 300);

  std::promise<std::string> promise;
  auto future = promise.get_future();
  EXPECT(future.wait_for(5ms) == std::future_status::timeout);
  std::jthread([&] { promise.set_value("kept"); });
  EXPECT(future.get() == "kept");
  std::promise<int> broken;
  auto never = broken.get_future();
  { const std::promise<int> gone = std::move(broken); }
  try {
    never.get();
    EXPECT(false);
  } catch (const std::future_error& error) {
    EXPECT(error.code() == std::future_errc::broken_promise);
  }
  std::packaged_task<int(int)> task([](int n) { return n * n; });
  auto square = task.get_future();
  std::jthread(std::move(task), 12);
  EXPECT(square.get() == 144);
}

static void once() {
  std::once_flag flag;
  std::atomic<int> calls = 0, thrown = 0;
  in_threads(kThreads, [&](int) {
    try {
      std::call_once(flag, [&] {
        std::this_thread::yield();
        if (++calls < 3) throw Failure(calls);
      });
    } catch (const Failure&) {
      thrown++;
    }
  });
  EXPECT(calls == 3 && thrown == 2);
  static std::atomic<int> made;
  struct Slow {
    Slow() {
      std::this_thread::yield();
      made++;
    }
  };
  in_threads(kThreads, [&](int) {
    static Slow slow;
    EXPECT(made == 1);
  });
}

static std::atomic<int> locals;
struct Local {
  Local() { locals++; }
  ~Local() { locals--; }
  int number = 0;
};
static thread_local Local local;

static void meetings() {
  std::latch latch(kThreads);
  std::atomic<int> at_barrier = 0, rounds = 0;
  std::barrier barrier(kThreads, [&]() noexcept { rounds += at_barrier.exchange(0) == kThreads; });
  std::counting_semaphore<4> four(4);
  std::binary_semaphore one(1);
  std::atomic<int> inside = 0, value = 0;
  long guarded = 0;
  in_threads(kThreads, [&](int number) {
    local.number = number;
    latch.arrive_and_wait();
    EXPECT(latch.try_wait());
    for (int i = 0; i < 50; i++) {
      at_barrier++;
      barrier.arrive_and_wait();
      four.acquire();
      EXPECT(++inside <= 4);
      inside--;
      four.release();
      one.acquire();
      guarded++;
      one.release();
    }
    EXPECT(local.number == number);
    // Each thread wakes the next thread through an atomic variable.
    for (int now; (now = value.load()) != number;) value.wait(now);
    value++;
    value.notify_all();
  });
  EXPECT(rounds == 50 && guarded == kThreads * 50 && value == kThreads);
  EXPECT(locals == 0);
  EXPECT(!four.try_acquire_for(0ms) || (four.release(), true));
}

static void counts() {
  auto pointer = std::make_shared<std::vector<int>>(1000, 1);
  std::weak_ptr<std::vector<int>> weak = pointer;
  std::atomic<std::shared_ptr<int>> current(std::make_shared<int>(0));
  in_threads(kThreads, [&](int) {
    for (int i = 0; i < 500; i++) {
      const auto copy = pointer;
      const std::function<long()> sum = [copy] {
        return std::accumulate(copy->begin(), copy->end(), 0L);
      };
      if (i % 50 == 0) EXPECT(sum() == 1000);
      auto old = current.load();
      while (!current.compare_exchange_weak(old, std::make_shared<int>(*old + 1))) continue;
    }
  });
  EXPECT(pointer.use_count() == 1 && *current.load() == kThreads * 500);
  pointer.reset();
  EXPECT(weak.expired());
}

static void files() {
  const fs::path folder = fs::temp_directory_path() / "threads";
  fs::remove_all(folder);
  in_threads(kThreads, [&](int number) {
    const fs::path own = folder / std::to_string(number) / "deep";
    fs::create_directories(own);
    for (int i = 0; i < 10; i++) {
      std::ofstream(own / std::to_string(i)) << number << ' ' << i << '\n';
      int a = -1, b = -1;
      std::ifstream(own / std::to_string(i)) >> a >> b;
      EXPECT(a == number && b == i);
    }
    std::ostringstream text;
    text << number << ' ' << 1.5;
    EXPECT(text.str() == std::to_string(number) + " 1.5");
  });
  std::map<std::string, int> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names[entry.path().filename()]++;
  }
  EXPECT(names.size() == 10 && names["9"] == kThreads);
  EXPECT(fs::remove_all(folder) == kThreads * 12 + 1);
}

static void time_passes() {
  const auto before = std::chrono::steady_clock::now();
  std::jthread sleeps([] { std::this_thread::sleep_for(20ms); });
  sleeps.join();
  std::this_thread::sleep_until(before + 30ms);
  EXPECT(std::chrono::steady_clock::now() - before >= 30ms);
  EXPECT(std::thread::hardware_concurrency() >= 1);
  const auto day = std::chrono::sys_days{std::chrono::year{2026} / 11 / 23};
  EXPECT(std::chrono::weekday{day} == std::chrono::Monday);
  std::thread::id none, own = std::this_thread::get_id(), other;
  std::jthread([&] { other = std::this_thread::get_id(); });
  EXPECT(own != none && other != none && own != other);
}

int main() {
  mutexes();
  conditions();
  exceptions();
  once();
  meetings();
  counts();
  files();
  time_passes();
  if (failures == 0) std::puts("ok");
  return failures != 0;
}
