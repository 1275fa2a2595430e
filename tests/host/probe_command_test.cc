#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "probe/command_impl.h"
#include "trace_world.h"

namespace {

std::vector<ProbeCommand> parse(std::string_view text) {
  std::vector<ProbeCommand> commands;
  ProbeCommand command;
  for (;;) {
    Result<bool> more = probe_next_command(&text, &command);
    EXPECT_TRUE(more.ok()) << TraceWorld::error();
    if (!more.ok() || !more.value()) return commands;
    commands.push_back(command);
  }
}

std::string error_of(std::string_view text) {
  ProbeCommand command;
  for (;;) {
    Result<bool> more = probe_next_command(&text, &command);
    if (!more.ok()) {
      EXPECT_EQ(more.error(), Errno::EINVAL);
      return TraceWorld::error();
    }
    if (!more.value()) return "";
  }
}

std::vector<ProbeFunctionName> functions_of(std::string_view text) {
  std::vector<ProbeFunctionName> functions;
  ProbeFunctionName function;
  for (;;) {
    Result<bool> more = probe_next_function(&text, &function);
    EXPECT_TRUE(more.ok()) << TraceWorld::error();
    if (!more.ok() || !more.value()) return functions;
    functions.push_back(function);
  }
}

TEST(ProbeCommand, Words) {
  const auto commands = parse(
      "\n count a b\n\tevent c\nevent+return d\nwatch memory\nprocesses\nstart\nstop \r\nclear");
  const ProbeWord words[] = {
      ProbeWord::kCount,     ProbeWord::kEvent, ProbeWord::kEventReturn, ProbeWord::kWatchMemory,
      ProbeWord::kProcesses, ProbeWord::kStart, ProbeWord::kStop,        ProbeWord::kClear};
  ASSERT_EQ(commands.size(), std::size(words));
  for (size_t i = 0; i < commands.size(); i++) EXPECT_EQ(commands[i].word, words[i]) << i;
  EXPECT_EQ(functions_of(commands[0].functions).size(), 2u);
  EXPECT_TRUE(parse("\n \n\t\n").empty());
}

TEST(ProbeCommand, Numbers) {
  EXPECT_EQ(parse("depth 61")[0].number, 61u);
  EXPECT_EQ(parse("min 4K")[0].number, 4096u);
  EXPECT_EQ(parse("max 4294967295")[0].number, UINT32_MAX);
  EXPECT_EQ(parse("sample 512K")[0].number, 512u << 10);
  EXPECT_EQ(parse("cpu 0")[0].number, 0u);
  for (const char* bad : {"depth 0", "depth 62", "depth", "depth 1K", "depth -1", "depth 0x3",
                          "pid 0", "pid 32768", "pid 99999999999999999999", "cpu 64", "min 5G",
                          "min K", "max 1.5", "sample 0", "sample 5G"}) {
    EXPECT_NE(error_of(bad).find("takes a number from"), std::string::npos) << bad;
  }
}

TEST(ProbeCommand, Alloc) {
  const auto commands = parse(
      "alloc f size=1\nalloc f size=2*3 old=4 result=return\nalloc f result=*1 size=3\nfree g "
      "address=6\n");
  EXPECT_EQ(commands[0].rule, (ProbeAllocRule{.size = 1}));
  EXPECT_EQ(commands[1].rule, (ProbeAllocRule{.size = 2, .factor = 3, .old = 4}));
  EXPECT_EQ(commands[2].rule, (ProbeAllocRule{.size = 3, .result = 1}));
  EXPECT_EQ(commands[3].address, 6);
  EXPECT_EQ(commands[3].functions, "g");
  for (const char* bad :
       {"alloc", "alloc f", "alloc f size=0", "alloc f size=7", "alloc f size=1*",
        "alloc f size=*1", "alloc f size=1 size=2", "alloc f size=1 result=1",
        "alloc f size=1 old=x", "alloc f size=1 more", "free", "free f",
        "free f address=", "free f address=7", "free f address=1 g", "free f g address=1"}) {
    EXPECT_NE(error_of(bad), "") << bad;
  }
}

TEST(ProbeCommand, Functions) {
  const auto kernel = functions_of("pipe* (anonymous?namespace)::a_b ns::c::operator() operator/");
  ASSERT_EQ(kernel.size(), 4u);
  for (const auto& function : kernel) EXPECT_FALSE(function.user) << function.name;
  EXPECT_EQ(kernel[1].name, "(anonymous?namespace)::a_b");

  const auto user = functions_of(
      "/bin/sh:401000:main #tmp/a:0x1F:std::bad:2a,0x3b prog:1:a::deadbeef /odd:name/x:10:f:1,2,3");
  ASSERT_EQ(user.size(), 4u);
  for (const auto& function : user) EXPECT_TRUE(function.user) << function.name;
  EXPECT_EQ(user[0].path, "/bin/sh");
  EXPECT_EQ(user[0].address, 0x401000u);
  EXPECT_EQ(user[0].name, "main");
  EXPECT_EQ(user[0].returns, "");
  EXPECT_EQ(user[1].path, "#tmp/a");
  EXPECT_EQ(user[1].address, 0x1fu);
  EXPECT_EQ(user[1].name, "std::bad");
  EXPECT_EQ(user[1].returns, "2a,0x3b");
  EXPECT_EQ(user[2].name, "a::deadbeef");  // not the name `a:` with a return address
  EXPECT_EQ(user[2].returns, "");
  EXPECT_EQ(user[3].path, "/odd:name/x");

  std::string_view returns = user[1].returns;
  uint64_t address = 0;
  EXPECT_TRUE(probe_next_return(&returns, &address));
  EXPECT_EQ(address, 0x2au);
  EXPECT_TRUE(probe_next_return(&returns, &address));
  EXPECT_EQ(address, 0x3bu);
  EXPECT_FALSE(probe_next_return(&returns, &address));

  for (const char* bad :
       {"count", "count /bin/sh", "count /bin/sh:main", "count /bin/sh:g:main", "count /bin/sh:1",
        "count /bin/sh:1:", "count /bin/sh:1:f:", "count /bin/sh:1:f:1,", "count /bin/sh:1:f:,1",
        "count /bin/sh:1:f:x", "count /bin/sh:11112222333344445:f", "count :1:"}) {
    EXPECT_NE(error_of(bad), "") << bad;
  }
}

TEST(ProbeCommand, Errors) {
  EXPECT_NE(error_of("bogus").find("expected count event"), std::string::npos);
  EXPECT_TRUE(error_of("notaword").ends_with("stop clear"))
      << "all words fit into the error string";
  EXPECT_NE(error_of("count a\nbogus").find("bogus"), std::string::npos);
  EXPECT_NE(error_of("watch me").find("watch memory"), std::string::npos);
  EXPECT_NE(error_of("stacks up").find("kernel, user, both or none"), std::string::npos);
  EXPECT_NE(error_of("start now").find("nothing may follow"), std::string::npos);
  EXPECT_NE(error_of("depth 3 4").find("nothing may follow"), std::string::npos);
}

// The reference for probe_matches(): slow but obviously correct.
bool matches_slowly(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return matches_slowly(pattern.substr(1), name) ||
           (!name.empty() && matches_slowly(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matches_slowly(pattern.substr(1), name.substr(1));
}

TEST(ProbeCommand, Patterns) {
  std::mt19937 random(1);
  const auto text = [&](const char* letters, size_t longest) {
    std::string made(random() % (longest + 1), ' ');
    for (char& c : made) c = letters[random() % strlen(letters)];
    return made;
  };
  for (int i = 0; i < 200000; i++) {
    const std::string pattern = text("ab*?", 8), name = text("ab", 10);
    ASSERT_EQ(probe_matches(pattern, name), matches_slowly(pattern, name))
        << pattern << " " << name;
  }
  // A matcher that tries every position for every star would run practically for ever.
  std::string hard;
  for (int i = 0; i < 1000; i++) hard += "*a";
  EXPECT_FALSE(probe_matches(hard + "b", std::string(3000, 'a')));
}

TEST(ProbeCommand, Garbage) {
  std::mt19937 random(2);
  const char* const words[] = {"count", "alloc", "free", "size=", "1",     "*", ":", "/",
                               "::",    " ",     "\n",   "start", "depth", "9", ","};
  for (int i = 0; i < 100000; i++) {
    std::string text;
    for (unsigned n = random() % 12; n > 0; n--) text += words[random() % std::size(words)];
    std::string_view rest = text;
    ProbeCommand command;
    for (;;) {
      Result<bool> more = probe_next_command(&rest, &command);
      if (!more.ok() || !more.value()) break;
    }
  }
}

}  // namespace
