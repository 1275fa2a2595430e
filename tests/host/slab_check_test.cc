// Misuse of objects of checked caches, and the reports of this misuse in the log.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cpus.h"
#include "kmalloc.h"
#include "slab.h"
#include "slab_check_world.h"

namespace {

using host::Check;
using host::make_cache;
using host::said;
using host::said_nothing;
using host::sound;
using host::stats_of;

TEST_P(Check, WriteOneByteFarIsReportedWithBothPlaces) {
  auto* const object = alloc(11);
  const size_t size = GetParam().size;
  object[size] = 'A';
  free(object, 12);
  EXPECT_TRUE(said({"write past the end of an object, victim", "41", "|", "allocated at place 11",
                    "found as it was freed at place 12", "the object is not reused"}));
  EXPECT_EQ(stats_of(cache_).reports, 1u);
  EXPECT_TRUE(quarantined(object));
  EXPECT_TRUE(said_nothing());
}

TEST_P(Check, BytesBeyondTheRequestAreRedZone) {
  const size_t size = GetParam().size;
  host_cpu.place = 11;
  auto* object = static_cast<unsigned char*>(kmem_cache_alloc_sized(cache_, size / 2, KM_ATOMIC));
  object[size / 2]++;
  free(object, 12);
  const std::string asked =
      std::to_string(size) + " bytes, " + std::to_string(size / 2) + " requested";
  const std::string where = "byte +" + std::to_string(size / 2) + " has";
  EXPECT_TRUE(said({"write past the end", asked.c_str(), where.c_str(), "place 11", "place 12"}));
  // All requested bytes may be written.
  object = static_cast<unsigned char*>(kmem_cache_alloc_sized(cache_, size / 2, KM_ATOMIC));
  memset(object, 0x5a, size / 2);
  kmem_cache_check_scan(cache_);
  memset(object, 0x5a, size);
  EXPECT_EQ(kmem_cache_check_scan(cache_), size > size / 2 ? 1u : 0u);
  free(object, 12);
  EXPECT_TRUE(said({"found in a scan"}));
  EXPECT_EQ(stats_of(cache_).quarantined, 2u);
}

TEST_P(Check, WriteOverTheAuditIsReported) {
  auto* const object = alloc(11);
  memset(object + GetParam().size, 0x41, 24 + GetParam().align);
  free(object, 12);
  EXPECT_TRUE(said({"past the end of an object", "41", "found as it was freed at place 12"}));
  free(object, 13);
  EXPECT_TRUE(said({"double free", "freed again at place 13"}));
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteBeforeIsReportedOnce) {
  std::vector<unsigned char*> objects(8);
  for (auto*& object : objects) object = alloc(11);
  // With an alignment above GAP_MAX (slab_check.c), the first object of a slab begins where the
  // slab begins. So the test writes before the object with the highest address.
  auto* const object = *std::max_element(objects.begin(), objects.end());
  object[-1] = 'A';
  EXPECT_EQ(kmem_cache_check_scan(cache_), 1u);
  EXPECT_TRUE(said(
      {"write before the start", "byte -1 has", "41", "allocated at place 11", "found in a scan"}));
  EXPECT_EQ(kmem_cache_check_scan(cache_), 0u);
  for (auto* other : objects) free(other, 12);
  EXPECT_TRUE(said_nothing());
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteAfterFreeIsFoundByAScan) {
  auto* const object = alloc(11);
  free(object, 12);
  object[GetParam().size / 2] ^= 1;
  host_cpu.place = 13;
  EXPECT_EQ(kmem_cache_check_scan(cache_), 1u);
  EXPECT_TRUE(said({"write to a free object, victim", "allocated at place 11", "freed at place 12",
                    "found in a scan at place 13"}));
  EXPECT_EQ(kmem_cache_check_scan(cache_), 0u);
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteAfterFreeIsFoundByTheNextWhoWouldGetIt) {
  auto* const object = alloc(11);
  free(object, 12);
  object[0] ^= 1;
  std::vector<void*> objects;
  for (int i = 0; i < 300; i++) objects.push_back(alloc(13));
  EXPECT_TRUE(said({"write to a free object, victim", "allocated at place 11", "freed at place 12",
                    "found as it was to be allocated again at place 13"}));
  for (void* other : objects) free(other, 14);
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteAfterFreeIsFoundWhenTheSlabIsGivenBack) {
  std::vector<unsigned char*> objects;
  for (int i = 0; i < 300; i++) objects.push_back(alloc(11));
  for (int i = 0; i < 200; i++) free(objects[i], 12);
  // This writes to a free object. The slab of this object must still have an allocated object,
  // because otherwise the cache would already have freed the slab.
  objects[199][0] ^= 1;
  for (int i = 200; i < 300; i++) free(objects[i], 12);
  EXPECT_EQ(stats_of(cache_).reports + kmem_cache_check_scan(cache_), 1u);
  EXPECT_TRUE(said(
      {"write to a free object, victim", "allocated at place 11", "freed at place 12", "found"}));
  EXPECT_TRUE(quarantined(objects[199]));
}

TEST_P(Check, DoubleFreeIsReportedAndNotCounted) {
  auto* const object = alloc(11);
  auto* const other = alloc(1);
  free(object, 12);
  free(object, 13);
  EXPECT_TRUE(said({"double free, victim", "allocated at place 11", "freed at place 12",
                    "freed again at place 13"}));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 14);
  EXPECT_TRUE(said({"double free, victim", "freed again at place 14"}));
  free(other, 1);
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, FreeOfWhatIsNoObjectIsRefused) {
  auto* const object = alloc(11);
  free(object + 1, 12);
  EXPECT_TRUE(said({"free of an address that is not an object, victim", "1 bytes into the object",
                    "allocated at place 11", "freed at place 12", "nothing is freed"}));
  int nowhere;
  free(&nowhere, 12);
  EXPECT_TRUE(said({"free of an address that is not an object, victim", "has no object there"}));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 1);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_TRUE(said_nothing());
}

TEST_P(Check, FreeToAnotherCheckedCacheIsRefused) {
  kmem_cache* const other =
      kmem_cache_create("other", 40, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache_check_start(other);
  auto* const object = alloc(11);
  host_cpu.place = 12;
  kmem_cache_free(other, object);
  EXPECT_TRUE(said({"free to the wrong cache, victim", "it is given to other",
                    "allocated at place 11", "freed at place 12", "stays allocated"}));
  EXPECT_TRUE(sound(other, 0));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 1);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_TRUE(said_nothing());
  kmem_cache_destroy(other);
}

TEST_P(Check, UncheckedObjectFreedToACheckedCacheIsRefused) {
  kmem_cache* const other =
      kmem_cache_create("other", 40, 0, 0, nullptr, nullptr, nullptr, nullptr);
  void* const object = kmem_cache_alloc(other, KM_ATOMIC);
  free(object, 12);
  EXPECT_TRUE(said({"free to the wrong cache, other", "not checked: who allocated it is not known",
                    "it is given to victim", "freed at place 12"}));
  EXPECT_TRUE(sound(cache_, 0));
  kmem_cache_free(other, object);
  EXPECT_TRUE(sound(other, 0));
  kmem_cache_destroy(other);
}

TEST_P(Check, DoubleFreeOfAnObjectFromBeforeIsRefused) {
  kmem_cache_check_stop(cache_);
  auto* const object = alloc(11);
  auto* const other = alloc(11);
  kmem_cache_check_start(cache_);
  free(object, 12);
  EXPECT_TRUE(said_nothing());
  free(object, 13);
  EXPECT_TRUE(said({"double free, victim", "not checked: who allocated it is not known",
                    "freed again at place 13", "the object stays free"}));
  EXPECT_TRUE(sound(cache_, 1));
  free(other, 12);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_TRUE(said_nothing());
}

// If a cache without checking detects an error, the kernel panics. The panic message names the
// command `check` of #mem, which switches checking on.
TEST_P(Check, WithoutCheckingTheMessageNamesTheWord) {
  kmem_cache_check_stop(cache_);
  kmem_cache* const other =
      kmem_cache_create("other", 40, 0, KMC_NOMAGAZINE, nullptr, nullptr, nullptr, nullptr);
  auto* const object = alloc(11);
  EXPECT_DEATH(
      kmem_cache_free(other, object),
      "other: .* was freed to it, but belongs to victim. To learn more, write `check` to #mem");
  free(object, 12);
  kmem_cache_destroy(other);
}

TEST_P(Check, FreeToAnUncheckedCacheIsFoundWhenItsMagazineIsEmptied) {
  kmem_cache* const other =
      kmem_cache_create("other", 40, 0, 0, nullptr, nullptr, nullptr, nullptr);
  auto* const object = alloc(11);
  kmem_cache_free(other, object);
  EXPECT_TRUE(said_nothing());
  kmem_cache_check_start(other);  // empties the magazines of `other`
  EXPECT_TRUE(said({"free to the wrong cache, victim", "it is given to other",
                    "allocated at place 11", "found as a magazine was emptied"}));
  EXPECT_TRUE(sound(other, 0));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 1);
  kmem_cache_destroy(other);
}

// If several CPUs free one object at once, exactly one free succeeds.
TEST(CheckRace, OneOfManyFreesIsTheFree) {
  kmem_cache* const cache = make_cache({64, 0, 0, false});
  kmem_cache_check_start(cache);
  constexpr int kRounds = 200;
  std::vector<void*> objects(kRounds), others(kRounds);  // `others` keep slabs from becoming empty
  for (int i = 0; i < kRounds; i++) {
    objects[i] = kmem_cache_alloc(cache, KM_ATOMIC);
    others[i] = kmem_cache_alloc(cache, KM_ATOMIC);
  }
  host::run_cpus(4, [&](unsigned) {
    for (void* object : objects) kmem_cache_free(cache, object);
  });
  EXPECT_EQ(stats_of(cache).reports, 3u * kRounds);
  EXPECT_EQ(stats_of(cache).quarantined, 0u + kRounds);
  for (void* object : others) kmem_cache_free(cache, object);
  EXPECT_TRUE(sound(cache, 0));
  // Most of the 600 errors were only counted. The log has fewer than 1,000 lines.
  const std::string log = host::take_log();
  EXPECT_NE(log.find("are only counted"), log.npos);
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 100 * 10);
  kmem_cache_destroy(cache);
}

// A destructor frees the object that it destructs. So the object is freed a second time while the
// first free is under way.
TEST(CheckRace, AFreeDuringTheFreeIsADoubleFree) {
  static kmem_cache* cache;
  const auto destructor = [](void* object, void*) {
    host_cpu.place = 13;
    kmem_cache_free(cache, object);
  };
  cache = kmem_cache_create("suicidal", 64, 0, 0, nullptr, nullptr, destructor, nullptr);
  kmem_cache_check_start(cache);
  host_cpu.place = 11;
  void* const object = kmem_cache_alloc(cache, KM_ATOMIC);
  host_cpu.place = 12;
  kmem_cache_free(cache, object);
  EXPECT_TRUE(said(
      {"double free", "allocated at place 11", "freed at place 12", "freed again at place 13"}));
  EXPECT_EQ(stats_of(cache).quarantined, 1u);
  EXPECT_TRUE(sound(cache, 0));
  kmem_cache_destroy(cache);
}

TEST(CheckKmalloc, BytesBeyondTheRequestAreRedZone) {
  auto* object = static_cast<unsigned char*>(kmalloc(1, KM_SLEEP));
  kmem_cache* const cache = kmem_cache_find("kmalloc_64");
  ASSERT_NE(cache, nullptr);
  kfree(object);
  kmem_cache_check_start(cache);
  object = static_cast<unsigned char*>(kmalloc(50, KM_ZERO));
  ASSERT_EQ(kmem_cache_of(object), cache);
  EXPECT_EQ(kmalloc_usable_size(object), 50u);
  EXPECT_TRUE(std::all_of(object, object + 50, [](unsigned char byte) { return byte == 0; }));
  kfree(object);
  EXPECT_TRUE(said_nothing());
  host_cpu.place = 11;
  object = static_cast<unsigned char*>(kmalloc(50, KM_SLEEP));
  object[50] = 0;
  host_cpu.place = 12;
  kfree(object);
  EXPECT_TRUE(said({"write past the end of an object, kmalloc_64", "64 bytes, 50 requested",
                    "byte +50 has", "allocated at place 11", "freed at place 12"}));
  kmem_cache_check_stop(cache);
  kmem_cache_release(cache);
}

TEST(CheckNewCaches, AreCheckedFromTheirFirstObjectIfTheSystemSaysSo) {
  host::check_new_caches(true);
  kmem_cache* const cache = make_cache({64, 0, 0, false});
  kmem_cache* const untouched = make_cache({64, 0, KMC_NOTOUCH, false});
  kmem_cache* const untraced = make_cache({64, 0, KMC_NOTRACE, false});
  host::check_new_caches(false);
  EXPECT_EQ(stats_of(cache).checked, 1u);
  EXPECT_EQ(stats_of(untouched).checked, 0u);
  EXPECT_EQ(stats_of(untraced).checked, 0u);
  void* const object = kmem_cache_alloc(cache, KM_ATOMIC);
  kmem_cache_free(cache, object);
  kmem_cache_free(cache, object);
  EXPECT_TRUE(said({"double free"}));
  for (kmem_cache* each : {cache, untouched, untraced}) kmem_cache_destroy(each);
}

}  // namespace
