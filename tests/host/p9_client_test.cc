// Tests the client of #p9 with good and with faulty servers. Faulty servers send wrong lengths,
// numbers and names, endless lists, errors, random answers, or no answer. The buffers have exactly
// the size that the client is told, so AddressSanitizer detects each access beyond the end of a
// buffer.
#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "p9_server.h"

namespace {

using namespace p9_server;

struct Names final : P9Listing {
  Result<void> add(const P9Qid&, uint8_t, std::string_view name) override {
    EXPECT_TRUE(p9_is_name(name) && name != "." && name != "..");
    names.emplace_back(name);
    return {};
  }
  std::vector<Bytes> names;
};

// A fid that the test owns. forgotten() records that the client does not use the fid any more.
struct TestFid final : P9Fid {
  using P9Fid::P9Fid;
  void forgotten() override {
    EXPECT_FALSE(is_forgotten);
    is_forgotten = true;
  }
  bool is_forgotten = false;
};
// Returns a new fid for the result of a walk or clone. The fid outlives the client.
TestFid& new_fid() {
  static std::list<TestFid> fids;
  return fids.emplace_back(2u);
}

// A call of the client, and a good answer to the call's request. calls() returns all calls.
struct Call {
  const char* name;
  std::function<std::optional<Errno>(P9Client&)> make;  // nullopt if the call succeeds
  Bytes good;
};
template <typename T>
std::optional<Errno> error_of(Result<T> result) {
  return result ? std::nullopt : std::optional(result.error());
}
const std::vector<Call>& calls() {
  static const std::vector<Call> all = {
      {"walk", [](P9Client& c) { return error_of(c.walk(1, new_fid(), "name")); }, u16(1) + qid()},
      {"clone", [](P9Client& c) { return error_of(c.clone(1, new_fid())); }, u16(0)},
      {"attributes", [](P9Client& c) { return error_of(c.attributes(1)); }, attributes(5)},
      {"set_attributes",
       [](P9Client& c) {
         P9Change change;
         change.mode = 0644;
         return error_of(c.set_attributes(1, change));
       },
       ""},
      {"symlink", [](P9Client& c) { return error_of(c.symlink(1, "name", "target", 0)); }, qid()},
      {"link", [](P9Client& c) { return error_of(c.link(1, 2, "name")); }, ""},
      {"readlink",
       [](P9Client& c) {
         const auto buffer = std::make_unique<char[]>(7);
         return error_of(c.readlink(1, buffer.get(), 7));
       },
       text("target")},
      {"sync", [](P9Client& c) { return error_of(c.sync(1, true)); }, ""},
      {"file_system", [](P9Client& c) { return error_of(c.file_system(1)); },
       u32(1) + u32(4096) + u64(9) + u64(8) + u64(7) + u64(6) + u64(5) + u64(4) + u32(255)},
      {"open", [](P9Client& c) { return error_of(c.open(1, 0)); }, qid() + u32(0)},
      {"create", [](P9Client& c) { return error_of(c.create(1, "name", 1, 0644, 0)); },
       qid() + u32(0)},
      {"make_directory", [](P9Client& c) { return error_of(c.make_directory(1, "name", 0755, 0)); },
       qid()},
      {"read",
       [](P9Client& c) {
         const auto buffer = std::make_unique<char[]>(100);
         return error_of(c.read(1, buffer.get(), 100, 0));
       },
       data("bytes")},
      {"write", [](P9Client& c) { return error_of(c.write(1, "bytes", 5, 0)); }, u32(5)},
      {"list",
       [](P9Client& c) {
         Names names;
         return error_of(c.list(1, names));
       },
       data("")},
      {"remove", [](P9Client& c) { return error_of(c.remove(1, "name", false)); }, ""},
      {"rename", [](P9Client& c) { return error_of(c.rename(1, "name", 2, "new")); }, ""},
  };
  return all;
}

TEST(P9Client, GoodAnswersAreUnderstood) {
  for (const Call& call : calls()) {
    Server server([&](const Asked& asked) { return reply(asked, call.good); });
    P9Client client(server);
    EXPECT_EQ(call.make(client), std::nullopt) << call.name;
    EXPECT_EQ(server.requests, 1u) << call.name;
  }
  Server server([&](const Asked& asked) {
    return asked.type == P9::kTversion ? reply(asked, u32(kP9MessageSize) + text("9P2000.L"))
                                       : reply(asked, qid(kDirectory, 77));
  });
  P9Client client(server);
  Result<P9Qid> root = client.connect();
  ASSERT_TRUE(root);
  EXPECT_EQ(root->path, 77u);
  EXPECT_EQ(server.asked[0].tag, UINT16_MAX);
}

TEST(P9Client, AttributesAreWhereTheyShouldBe) {
  Server server([&](const Asked& asked) { return reply(asked, attributes(123)); });
  P9Client client(server);
  Result<P9Attributes> result = client.attributes(9);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->mode, 0100644u);
  EXPECT_EQ(result->uid, 1u);
  EXPECT_EQ(result->gid, 2u);
  EXPECT_EQ(result->size, 123u);
  EXPECT_EQ(result->accessed.seconds, 10u);
  EXPECT_EQ(result->modified.nanoseconds, 21u);
  EXPECT_EQ(result->changed.seconds, 30u);
}

TEST(P9Client, AttributesAreSetAsAsked) {
  Server server([](const Asked& asked) { return reply(asked, ""); });
  P9Client client(server);
  P9Change change;
  change.uid = 5;
  change.size = 1000;
  change.accessed = {.now = true, .at = {}};
  change.modified = {.now = false, .at = {20, 21}};
  ASSERT_TRUE(client.set_attributes(9, change));
  // The fields of the message are: fid; flags (2: uid, 8: size, 0x10: time of access, 0x20: time of
  // modification, 0x100: modification time as given); mode; uid; gid; size; the two times.
  EXPECT_EQ(server.asked[0].contents, u32(9) + u32(2 | 8 | 0x10 | 0x20 | 0x100) + u32(0) + u32(5) +
                                          u32(0) + u64(1000) + u64(0) + u64(0) + u64(20) + u64(21));
}

TEST(P9Client, TargetsOfLinksFitAndAreText) {
  for (const auto& [target, expected] :
       std::vector<std::pair<Bytes, std::optional<Errno>>>{{"target", std::nullopt},
                                                           {"", std::nullopt},
                                                           {"target7", Errno::ENAMETOOLONG},
                                                           {Bytes(60000, 'x'), Errno::ENAMETOOLONG},
                                                           {Bytes("a\0b", 3), Errno::EIO}}) {
    Server server([&](const Asked& asked) { return reply(asked, text(target)); });
    P9Client client(server);
    const auto buffer = std::make_unique<char[]>(7);
    Result<size_t> size = client.readlink(1, buffer.get(), 7);
    EXPECT_EQ(size ? std::nullopt : std::optional(size.error()), expected);
    if (size) {
      EXPECT_EQ(Bytes(buffer.get(), *size), target);
    }
  }
}

TEST(P9Client, LargeReadsAndWritesAreMadeOfSeveral) {
  constexpr size_t kSize = 2 * kP9Payload + 100;
  Server server([&](const Asked& asked) {
    uint32_t count;
    memcpy(&count, asked.contents.data() + 12, sizeof count);
    if (asked.type == P9::kTread) return reply(asked, data(Bytes(count, 'x')));
    EXPECT_EQ(asked.contents.size(), 16 + count);
    return reply(asked, u32(count));
  });
  P9Client client(server);
  std::vector<char> buffer(kSize);
  Result<size_t> got = client.read(1, buffer.data(), kSize, 0);
  EXPECT_TRUE(got && *got == kSize);
  EXPECT_EQ(buffer, std::vector<char>(kSize, 'x'));
  Result<size_t> put = client.write(1, buffer.data(), kSize, 0);
  EXPECT_TRUE(put && *put == kSize);
  EXPECT_EQ(server.requests, 6u);
}

// The server sends each prefix of a good answer twice. The first time, the header has the length of
// the whole answer. The second time, the header has the length of the prefix.
TEST(P9Client, AnswersThatAreCutAreErrors) {
  for (const Call& call : calls()) {
    for (size_t kept = 0; kept < kP9Header + call.good.size(); ++kept) {
      for (const bool honest : {false, true}) {
        Server server([&](const Asked& asked) {
          Bytes answer = reply(asked, call.good).substr(0, kept);
          const uint32_t length = static_cast<uint32_t>(kept);
          if (honest && kept >= sizeof length) memcpy(answer.data(), &length, sizeof length);
          return answer;
        });
        P9Client client(server);
        const std::optional<Errno> failed = call.make(client);
        // A cut answer may be accepted only if the length in its header is right, and the call does
        // not need the missing bytes.
        const bool whole = honest && kept >= kP9Header && std::string_view(call.name) != "walk";
        if (!whole) {
          EXPECT_EQ(failed, Errno::EIO) << call.name << " " << kept << " " << honest;
        }
        EXPECT_EQ(server.requests, 1u);
      }
    }
  }
}

TEST(P9Client, LengthsThatAreWrongAreErrors) {
  for (const Call& call : calls()) {
    for (const uint32_t length :
         {0u, 1u, 6u, 1000u, kP9MessageSize, kP9MessageSize + 1, 0x7fffffffu, 0xffffffffu}) {
      for (const size_t received : {size_t{0}, size_t{7}, size_t{500}, size_t{kP9MessageSize} + 1,
                                    size_t{1} << 40, SIZE_MAX}) {
        Server server([&](const Asked& asked) {
          Bytes answer = reply(asked, Bytes(200, '\xff'));
          memcpy(answer.data(), &length, sizeof length);
          return answer;
        });
        server.says_received = received;
        P9Client client(server);
        static_cast<void>(call.make(client));
        if (length < kP9Header || length > std::min<size_t>(received, kP9MessageSize)) {
          EXPECT_EQ(call.make(client), Errno::EIO) << call.name << " " << length << " " << received;
        }
      }
    }
  }
}

TEST(P9Client, AnswersToSomethingElseAreErrors) {
  for (const Call& call : calls()) {
    for (const bool tag : {false, true}) {
      Server server([&](const Asked& asked) {
        const auto type = static_cast<uint8_t>(static_cast<uint8_t>(asked.type) + 1);
        return tag ? message(type, static_cast<uint16_t>(asked.tag + 1), call.good)
                   : message(static_cast<uint8_t>(type + 2), asked.tag, call.good);
      });
      P9Client client(server);
      EXPECT_EQ(call.make(client), Errno::EIO) << call.name << " " << tag;
    }
  }
}

// The client must not forward a server's EINTR: the caller would repeat the call for ever.
TEST(P9Client, ErrorsOfTheServerAreGivenOnButForItsInterruptions) {
  for (const Call& call : calls()) {
    for (const auto& [given, expected] :
         std::vector<std::pair<uint32_t, Errno>>{{2, Errno::ENOENT},
                                                 {4, Errno::EIO},
                                                 {13, Errno::EACCES},
                                                 {39, Errno::ENOTEMPTY},
                                                 {512, Errno::EIO},
                                                 {0, Errno::EIO},
                                                 {UINT32_MAX, Errno::EIO}}) {
      Server server([&](const Asked& asked) { return error(asked, given); });
      P9Client client(server);
      EXPECT_EQ(call.make(client), expected) << call.name << " " << given;
      EXPECT_EQ(server.requests, 1u);
    }
  }
}

TEST(P9Client, SilenceIsGivenOn) {
  for (const Call& call : calls()) {
    for (const Errno why : {Errno::EINTR, Errno::ETIMEDOUT}) {
      Server server([](const Asked&) { return Bytes(); });
      P9Client client(server);
      server.silent = why;
      EXPECT_EQ(call.make(client), why) << call.name;
      EXPECT_EQ(server.requests, 1u);
      server.no_slot = why;
      EXPECT_EQ(call.make(client), why) << call.name;
      client.clunk(new_fid());
      EXPECT_EQ(server.requests, 1u);
    }
  }
}

std::vector<uint32_t> clunked(const Server& server) {
  std::vector<uint32_t> fids;
  for (const Asked& asked : server.asked) {
    if (asked.type != P9::kTclunk) continue;
    uint32_t fid;
    memcpy(&fid, asked.contents.data(), sizeof fid);
    fids.push_back(fid);
  }
  return fids;
}
Bytes good_answer(const Asked& asked) {
  if (asked.type != P9::kTwalk) return reply(asked, asked.type == P9::kTclunk ? "" : attributes(5));
  return reply(asked, asked.contents.size() > 10 ? u16(1) + qid() : u16(0));
}

// An ending process waits for a slot only briefly. Its fids are clunked once a slot is free.
TEST(P9Client, FidsThatCouldNotBeGivenUpAreGivenUpLater) {
  Server server(good_answer);
  P9Client client(server);
  TestFid a(7), b(8), c(9);
  server.no_slot = Errno::EINTR;
  client.clunk(a);
  client.clunk(b);
  EXPECT_EQ(server.requests, 0u);
  EXPECT_FALSE(a.is_forgotten || b.is_forgotten);
  server.no_slot.reset();
  client.clunk(c);
  EXPECT_EQ(clunked(server), (std::vector<uint32_t>{7, 8, 9}));
  EXPECT_TRUE(a.is_forgotten && b.is_forgotten && c.is_forgotten);
  EXPECT_TRUE(client.attributes(1));
  EXPECT_EQ(server.requests, 4u);
}

TEST(P9Client, WhoEndsWaitsOnceForAllOfItsFids) {
  Server server(good_answer);
  P9Client client(server);
  TestFid fids[] = {TestFid(7), TestFid(8), TestFid(9)};
  server.no_slot = Errno::EINTR;
  server.ends_after = 0;
  for (TestFid& fid : fids) client.clunk(fid);
  EXPECT_EQ(server.waits, 1u);
  server.no_slot.reset();
  EXPECT_TRUE(client.attributes(1));
  EXPECT_EQ(clunked(server), (std::vector<uint32_t>{7, 8, 9}));
}

// The server executes a request although its waiter has given up.
TEST(P9Client, FidsThatCameTooLateAreGivenUp) {
  Server server(good_answer);
  P9Client client(server);
  TestFid walked(7), cloned(8), closed(9);
  server.silent = Errno::EINTR;
  EXPECT_EQ(error_of(client.walk(1, walked, "name")), Errno::EINTR);
  EXPECT_EQ(error_of(client.clone(1, cloned)), Errno::EINTR);
  client.clunk(closed);
  EXPECT_FALSE(walked.is_forgotten || cloned.is_forgotten);
  EXPECT_TRUE(closed.is_forgotten) << "the server has been told";
  server.silent.reset();
  // Make as many calls as there are slots. All these calls succeed, so the slots of the unanswered
  // requests are free again.
  for (unsigned i = 0; i < kP9Slots; ++i) EXPECT_TRUE(client.attributes(1));
  EXPECT_EQ(clunked(server), (std::vector<uint32_t>{7, 8}));
  EXPECT_TRUE(walked.is_forgotten && cloned.is_forgotten);
}

// The client does not clunk a fid that the server did not create.
TEST(P9Client, FidsThatWereNotMadeAreForgotten) {
  Server server([](const Asked& asked) { return error(asked, 2); });
  P9Client client(server);
  TestFid refused(7), unasked(8), unread(9), made(10);
  EXPECT_EQ(error_of(client.walk(1, refused, "name")), Errno::ENOENT);
  server.no_slot = Errno::ETIMEDOUT;
  EXPECT_EQ(error_of(client.clone(1, unasked)), Errno::ETIMEDOUT);
  EXPECT_TRUE(refused.is_forgotten && unasked.is_forgotten);
  // At first no slot is free for the clunk of `made`. So the client sends the clunk later, before
  // the next request, which is the walk for `unread`. The server does not answer the clunk, so the
  // client never sends the walk.
  client.clunk(made);
  server.no_slot.reset();
  server.silent = Errno::ETIMEDOUT;
  EXPECT_EQ(error_of(client.walk(1, unread, "name")), Errno::ETIMEDOUT);
  EXPECT_TRUE(unread.is_forgotten && made.is_forgotten);
  server.silent.reset();
  for (unsigned i = 0; i < kP9Slots; ++i) EXPECT_EQ(error_of(client.attributes(1)), Errno::ENOENT);
  EXPECT_EQ(clunked(server), std::vector<uint32_t>{});
}

TEST(P9Client, AListingEndsWithItsProcess) {
  uint64_t at = 0;
  Server server([&](const Asked& asked) { return reply(asked, data(entry("x", ++at))); });
  P9Client client(server);
  Names names;
  server.ends_after = 3;
  EXPECT_EQ(error_of(client.list(1, names)), Errno::EINTR);
  EXPECT_EQ(server.requests, 3u);
}

TEST(P9Client, CountsThatAreWrongAreErrors) {
  const auto call_with = [](const Bytes& contents, auto make) {
    Server server([&](const Asked& asked) { return reply(asked, contents); });
    P9Client client(server);
    return make(client);
  };
  const auto read = [](P9Client& c) {
    const auto buffer = std::make_unique<char[]>(4);
    return error_of(c.read(1, buffer.get(), 4, 0));
  };
  EXPECT_EQ(call_with(data("12345"), read), Errno::EIO);
  EXPECT_EQ(call_with(u32(UINT32_MAX) + "1234", read), Errno::EIO);
  EXPECT_EQ(call_with(u32(5) + "1234", read), Errno::EIO);
  const auto write = [](P9Client& c) { return error_of(c.write(1, "1234", 4, 0)); };
  for (const uint32_t count : {0u, 5u, UINT32_MAX})
    EXPECT_EQ(call_with(u32(count), write), Errno::EIO) << count;
  const auto size = [](P9Client& c) { return error_of(c.attributes(1)); };
  EXPECT_EQ(call_with(attributes(INT64_MAX), size), std::nullopt);
  EXPECT_EQ(call_with(attributes(uint64_t{INT64_MAX} + 1), size), Errno::EIO);
  const auto walk = [](P9Client& c) { return error_of(c.walk(1, new_fid(), "name")); };
  EXPECT_EQ(call_with(u16(0), walk), Errno::ENOENT);
  EXPECT_EQ(call_with(u16(2) + qid() + qid(), walk), Errno::EIO);
  EXPECT_EQ(call_with(u16(1), [](P9Client& c) { return error_of(c.clone(1, new_fid())); }),
            Errno::EIO);
}

TEST(P9Client, WhatWasTransferredBeforeAnErrorCounts) {
  unsigned answers = 0;
  Server server([&](const Asked& asked) {
    if (answers++ % 2 == 1) return error(asked, 5);
    return asked.type == P9::kTread ? reply(asked, data(Bytes(kP9Payload, 'x')))
                                    : reply(asked, u32(kP9Payload));
  });
  P9Client client(server);
  std::vector<char> buffer(2 * kP9Payload);
  Result<size_t> got = client.read(1, buffer.data(), buffer.size(), 0);
  EXPECT_TRUE(got && *got == kP9Payload);
  Result<size_t> put = client.write(1, buffer.data(), buffer.size(), 0);
  EXPECT_TRUE(put && *put == kP9Payload);
}

TEST(P9Client, ServersThatCannotBeAgreedWith) {
  const auto connect = [](const Bytes& version, const Bytes& root) {
    Server server([&](const Asked& asked) {
      return reply(asked, asked.type == P9::kTversion ? version : root);
    });
    P9Client client(server);
    return error_of(client.connect());
  };
  const Bytes version = u32(kP9MessageSize) + text("9P2000.L"), root = qid(kDirectory);
  EXPECT_EQ(connect(version, root), std::nullopt);
  EXPECT_EQ(connect(u32(kP9MessageSize - 1) + text("9P2000.L"), root), Errno::ENOTSUP);
  EXPECT_EQ(connect(u32(kP9MessageSize) + text("9P2000.u"), root), Errno::ENOTSUP);
  EXPECT_EQ(connect(u32(kP9MessageSize) + u16(UINT16_MAX) + "9P", root), Errno::ENOTSUP);
  EXPECT_EQ(connect(version, qid()), Errno::EIO);
  EXPECT_EQ(connect(version, ""), Errno::EIO);
}

TEST(P9Client, NamesThatAreNoneAreLeftOut) {
  const std::vector<Bytes> bad = {"",
                                  ".",
                                  "..",
                                  "/",
                                  "a/b",
                                  "/etc/passwd",
                                  "../up",
                                  Bytes("nul\0x", 5),
                                  Bytes(256, 'x'),
                                  Bytes(5000, 'x')};
  Bytes entries = entry("first", 1);
  for (const Bytes& name : bad) entries += entry(name, entries.size());
  entries += entry(Bytes(255, 'l'), 99);
  bool last = false;
  Server server([&](const Asked& asked) {
    return reply(asked, data(std::exchange(last, true) ? "" : entries));
  });
  P9Client client(server);
  Names names;
  ASSERT_TRUE(client.list(1, names));
  EXPECT_EQ(names.names, (std::vector<Bytes>{"first", Bytes(255, 'l')}));
}

TEST(P9Client, ListsWithoutAnEndEnd) {
  uint64_t at = 0;
  const std::vector<std::pair<const char*, Server::Answer>> servers = {
      {"in a circle of one", [&](const Asked& asked) { return reply(asked, data(entry("x", 0))); }},
      {"ever further", [&](const Asked& asked) { return reply(asked, data(entry("x", ++at))); }},
      {"in a circle of two",
       [&](const Asked& asked) { return reply(asked, data(entry("x", ++at % 2 + 1))); }},
      {"of names that are none",
       [&](const Asked& asked) { return reply(asked, data(entry(".", ++at))); }},
  };
  for (const auto& [name, answer] : servers) {
    Server server(answer);
    P9Client client(server);
    Names names;
    EXPECT_EQ(error_of(client.list(1, names)), Errno::EIO) << name;
    EXPECT_LE(server.requests, kP9MaxListing / kP9AnswerSize + 1) << name;
    if (name == servers[0].first) {
      EXPECT_EQ(server.requests, 1u);
    }
  }
}

TEST(P9Client, AListingMayGiveUp) {
  struct NoMemory final : P9Listing {
    Result<void> add(const P9Qid&, uint8_t, std::string_view) override { return Errno::ENOMEM; }
  } listing;
  Server server([](const Asked& asked) { return reply(asked, data(entry("x", 1))); });
  P9Client client(server);
  EXPECT_EQ(error_of(client.list(1, listing)), Errno::ENOMEM);
  EXPECT_EQ(server.requests, 1u);
}

// Random answers: usually good ones with a few changed bytes. P9_SEED repeats a run, P9_ROUNDS
// lengthens it.
TEST(P9Client, RandomAnswers) {
  const auto setting = [](const char* name, unsigned otherwise) {
    const char* const value = getenv(name);
    return value ? static_cast<unsigned>(strtoul(value, nullptr, 0)) : otherwise;
  };
  const unsigned seed = setting("P9_SEED", 1), rounds = setting("P9_ROUNDS", 30'000);
  SCOPED_TRACE("P9_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random()) % limit; };
  std::vector<Bytes> parts = {entry("name", 3), entry("a/b", 4), qid(kDirectory),
                              data("bytes"),    u32(UINT32_MAX), u16(UINT16_MAX),
                              u64(0),           Bytes(300, 'n'), attributes(1 << 20)};
  for (unsigned round = 0; round < rounds; ++round) {
    const Call& call = calls()[below(calls().size())];
    Server server([&](const Asked& asked) {
      if (below(20) == 0) return error(asked, static_cast<uint32_t>(below(140)));
      Bytes contents = call.good;
      for (size_t more = below(4); more > 0; --more) contents += parts[below(parts.size())];
      if (asked.type == P9::kTreaddir && below(2)) {
        contents.clear();
        for (size_t n = below(20); n > 0; --n)
          contents += entry(Bytes(below(300), static_cast<char>(random())), random());
        contents = data(contents);
      }
      Bytes answer = reply(asked, contents);
      for (size_t changes = below(4); changes > 0; --changes)
        answer[below(answer.size())] = static_cast<char>(random());
      if (below(8) == 0) answer.resize(below(answer.size() + 1));
      return answer;
    });
    if (below(10) == 0) server.says_received = static_cast<size_t>(random()) << below(32);
    P9Client client(server);
    const std::optional<Errno> failed = call.make(client);
    ASSERT_NE(failed, Errno::EINTR) << call.name;
    ASSERT_LE(server.requests, kP9MaxListing / kP9AnswerSize + 1) << call.name;
  }
}

}  // namespace
