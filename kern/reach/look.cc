// A look at memory: makes a survey (survey_impl.h), then finds and groups the unreached objects.
#include "reach/look_impl.h"

#include "arch/x86_64/time.h"
#include "lib/format.h"
#include "pages.h"
#include "reach/heads.h"
#include "reach/survey_impl.h"
#include "slab_walk.h"

namespace reach {
namespace {

class Look final : public SurveyWork {
 public:
  explicit Look(Findings& findings) : findings_(findings) {}

  void look(const Survey& survey) override {
    search(survey);
    findings_.microseconds = (monotonic_now() - survey.begin).value / 1000;
  }

 private:
  void search(const Survey& survey) {
    const Index& index = survey.index;
    const Index::Counts counts = index.count();
    findings_.live = counts.live;
    findings_.overflows = survey.overflows;
    compare(index, survey.sources);
    findings_.groups.emplace(findings_.memory, survey.sources);
    findings_.remembered_count = 0;
    if (counts.reached == counts.live) return;
    pass_over(index, survey.sources);
    Report report{*findings_.groups, findings_};
    find_heads(index, survey.space, survey.stack, report);
  }

  // Marks unreached objects as reached if the report must not list them. These are slabs in transit
  // between a cache and its source arena, and objects that the allocator uses, such as magazines
  // and slab structures.
  static void pass_over(const Index& index, std::span<const Source> sources) {
    index.for_each(kLive | kReached, kLive, [&](const Object& object) {
      const Source& source = sources[object.run->source];
      const bool is_slab =
          !source.cache && page_of(reinterpret_cast<const void*>(object.address()))->slab;
      if (!source.listed || is_slab) object.state() |= kReached;
    });
  }

  // Counts heads that were unreached in the previous look and are reached now.
  void compare(const Index& index, std::span<const Source> sources) {
    findings_.returned = 0;
    for (uint32_t i = 0; i < findings_.remembered_count; i++) {
      const Object object = index.find(findings_.remembered[i]);
      if (!object || (object.state() & (kLive | kReached)) != (kLive | kReached)) continue;
      if (findings_.returned++ >= Findings::kReturnedShown) continue;
      Findings::Returned& returned = findings_.returned_shown[findings_.returned - 1];
      returned.address = object.address();
      const Source& source = sources[object.run->source];
      format(returned.name, sizeof(returned.name), "%s",
             source.cache ? kmem_cache_name(source.cache) : arena_name(source.arena));
    }
  }

  struct Report {
    Groups& groups;
    Findings& findings;
    void head(const Object& object) {
      if (findings.remembered_count < Findings::kRemembered)
        findings.remembered[findings.remembered_count++] = object.address();
      groups.head(object);
      if (findings.observer) findings.observer(findings.observer_argument, object, true);
    }
    void keeps(const Object& object) {
      groups.keeps(object);
      if (findings.observer) findings.observer(findings.observer_argument, object, false);
    }
  };

  Findings& findings_;
};

}  // namespace

Result<void> look(Findings& findings) {
  Look look(findings);
  return survey(look);
}

}  // namespace reach
