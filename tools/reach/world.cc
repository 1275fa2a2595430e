#include "world.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace reach {

// Reads the description, a line at a time.
class World::Reader {
 public:
  Reader(World& world, const std::string& core, std::string_view text)
      : world_(world), core_(core), text_(text) {}

  void read() {
    for (std::string_view rest = text_; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      line_ = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      take(line_);
    }
    if (!world_.index_) fail("no memory is described");
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Failure("the description of memory: " + why + ": " + std::string(line_.substr(0, 200)));
  }

  void take(std::string_view line) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    numbers_.clear();
    for (std::string_view rest = line.substr(end); !rest.empty();) {
      rest.remove_prefix(1);
      uint64_t number = 0;
      const auto [next, error] =
          std::from_chars(rest.data(), rest.data() + rest.size(), number, 16);
      if (error != std::errc() || (next != rest.data() + rest.size() && *next != ' '))
        fail("no number");
      numbers_.push_back(number);
      rest.remove_prefix(static_cast<size_t>(next - rest.data()));
    }
    if (word == "memory") return memory();
    if (!world_.memory_) fail("memory comes first");
    for (const Word& known : kWords) {
      if (known.name != word) continue;
      if (numbers_.size() < known.least) fail("too few numbers");
      return (this->*known.take)();
    }
    fail("no such word");
  }

  struct Word {
    std::string_view name;
    size_t least;
    void (Reader::*take)();
  };
  static const std::array<Word, 14> kWords;

  void memory() {
    if (numbers_.size() < 5 || world_.memory_) fail("memory is described once");
    if (numbers_[1] % Memory::kPage != 0 || numbers_[1] == 0 || numbers_[1] >> 46 != 0)
      fail("no size of memory");
    world_.memory_ = std::make_unique<Memory>(
        core_, Mappings{numbers_[0], numbers_[1], numbers_[2], numbers_[3], numbers_[4]});
    make_room();
  }
  // Allocates the tables for all runs and objects of the description. Run 0 is for page frames
  // without objects.
  void make_room() {
    uint64_t runs = 1, objects = 0;
    for (size_t at = text_.find("\nrun "); at != text_.npos; at = text_.find("\nrun ", at + 1)) {
      const std::string_view line = text_.substr(at + 1, text_.find('\n', at + 1) - at - 1);
      size_t place = 0;
      for (int i = 0; i < 6 && place != line.npos; i++) place = line.find(' ', place + 1);
      uint64_t count = 0;
      if (place != line.npos)
        std::from_chars(line.data() + place + 1, line.data() + line.size(), count, 16);
      runs++;
      objects += std::min(count, world_.memory_->size());
    }
    if (objects > world_.memory_->size()) fail("more objects than memory has bytes");
    world_.frames_.resize(world_.memory_->size() / Memory::kPage);
    world_.runs_.resize(runs);
    world_.states_.resize(objects);
    world_.index_ = std::make_unique<Index>(world_.memory_->base(), world_.frames_, world_.runs_,
                                            world_.states_);
  }

  void pages() {
    world_.descriptors_ = numbers_[0];
    world_.descriptor_size_ = numbers_[1];
    world_.slab_ = numbers_[2];
    world_.mappings_ = numbers_[3];
    world_.large_ = numbers_[4];
    world_.bytes_flag_ = numbers_[5];
  }
  void source() { world_.sources_.push_back({numbers_[0] != 0, numbers_[1] != 0, numbers_[2]}); }
  void run() {
    const uint64_t start = numbers_[0], bytes = numbers_[1], base = numbers_[2],
                   stride = numbers_[3], size = numbers_[4], count = numbers_[5],
                   number = numbers_[6], payload = numbers_[7];
    const bool fits = count > 0 && size > 0 && size <= bytes && payload <= size &&
                      start % Memory::kPage == 0 && base % 8 == 0 && base >= start &&
                      base - start <= bytes - size && world_.memory_->holds(start, bytes) &&
                      number < world_.sources_.size() && number <= UINT16_MAX;
    if (!fits) fail("these objects do not lie in memory");
    // In a run of several objects, offsets have 32 bits.
    const uint64_t room = bytes - size - (base - start);
    if (count > 1 && (bytes >> 32 != 0 || stride < size || count - 1 > room / stride))
      fail("these objects do not lie in memory");
    const uint64_t root = world_.sources_[number].root_offset;
    if (root != 0 && (root % 8 != 0 || root + 8 > size))
      fail("no place for a page table's address");
    world_.index_->add(
        start, bytes,
        {base, 0, size, nullptr, count > 1 ? static_cast<uint32_t>(stride) : 0,
         static_cast<uint32_t>(count), static_cast<uint16_t>(number), root != 0, payload});
    if (numbers_[8] == 0) return;
    for (uint64_t i = 0; i < count; i++) {
      const Object object = world_.index_->find(base + i * stride);
      if (object && world_.holds_bytes(object.address())) object.state() |= kOpaque;
    }
  }
  void cover() { world_.index_->cover(numbers_[0]); }
  void dead() {
    for (const uint64_t address : numbers_) world_.index_->set_dead(address);
  }
  void hide() {
    for (const uint64_t address : numbers_) {
      if (const Object object = world_.index_->find(address)) object.state() |= kOpaque;
    }
  }

  void object() { world_.objects_.insert(world_.objects_.end(), numbers_.begin(), numbers_.end()); }
  void words() { add_root(RangeOwner::of_static(), numbers_[0], numbers_[1]); }
  void stack() { add_root(RangeOwner::of_stack(numbers_[0]), numbers_[1], numbers_[2]); }
  void registers() {
    world_.registers_at_ = numbers_[0];
    world_.registers_.assign(numbers_.begin() + 1, numbers_.end());
    world_.roots_.push_back({RangeOwner::of_stack(0), numbers_[0],
                             numbers_[0] + sizeof(uint64_t) * world_.registers_.size()});
  }
  // Adds the memory that is mapped at [from, to) to the roots. Adds a root for each part that is
  // contiguous in physical memory.
  void add_root(const RangeOwner& place, uint64_t from, uint64_t to) {
    if (to < from || to - from > world_.memory_->size()) fail("no range");
    to &= ~uint64_t{7};
    uint64_t before = 0;  // end of the previous page in the direct map
    for (uint64_t at = (from + 7) & ~uint64_t{7}; at < to;) {
      const uint64_t end = std::min(to, (at | (Memory::kPage - 1)) + 1);
      const uint64_t direct = world_.memory_->direct(at);
      if (direct != 0 && direct == before) {
        world_.roots_.back().to = end;
      } else if (direct != 0) {
        world_.roots_.push_back({place, at, end});
      }
      before = direct != 0 ? direct + (end - at) : 0;
      at = end;
    }
  }
  void reference() { world_.references_.push_back({numbers_[1], numbers_[0]}); }
  void target() { world_.targets_.insert(numbers_.begin(), numbers_.end()); }
  void tables() { world_.tables_.emplace_back(numbers_[0], numbers_[1]); }
  void mapped() {
    for (uint64_t at = numbers_[0]; at < numbers_[1]; at += Memory::kPage) {
      if (const uint64_t page = world_.memory_->direct(at)) world_.mapped_.push_back(page);
    }
  }

  World& world_;
  const std::string& core_;
  const std::string_view text_;
  std::string_view line_;
  std::vector<uint64_t> numbers_;
};

const std::array<World::Reader::Word, 14> World::Reader::kWords = {{
    {"pages", 6, &Reader::pages},
    {"source", 3, &Reader::source},
    {"run", 9, &Reader::run},
    {"cover", 1, &Reader::cover},
    {"dead", 0, &Reader::dead},
    {"hide", 0, &Reader::hide},
    {"object", 0, &Reader::object},
    {"words", 2, &Reader::words},
    {"stack", 3, &Reader::stack},
    {"registers", 1, &Reader::registers},
    {"tables", 2, &Reader::tables},
    {"mapped", 2, &Reader::mapped},
    {"reference", 2, &Reader::reference},
    {"target", 0, &Reader::target},
}};

World::World(const std::string& core, std::string_view description) {
  Reader(*this, core, description).read();
  std::ranges::sort(references_, {}, &Reference::number);
}

void World::reach() {
  ReachedFromRoots<World> reached(*index_, *this, stack_, {});
  show_roots(reached);
  reached.finish();
}

const uint64_t* World::at(uint64_t address) const {
  if (memory_->holds(address, 8)) return memory_->at(address);
  const uint64_t offset = address - registers_at_;
  if (offset < sizeof(uint64_t) * registers_.size()) return &registers_[offset / sizeof(uint64_t)];
  return memory_->at(memory_->direct(address));
}

bool World::is_on_stack(uint64_t address) const {
  return std::ranges::any_of(roots_, [&](const Root& root) {
    return root.place.kind == RangeOwner::Kind::kStack && root.from != registers_at_ &&
           address >= root.from && address < root.to;
  });
}

const World::Reference* World::reference(uint64_t number) const {
  const auto found = std::ranges::lower_bound(references_, number, {}, &Reference::number);
  return number != 0 && found != references_.end() && found->number == number ? &*found : nullptr;
}

uint64_t World::descriptor_word(uint64_t address, uint64_t offset) const {
  const uint64_t frame = (address - memory_->base()) / Memory::kPage;
  const uint64_t place = memory_->direct(descriptors_ + frame * descriptor_size_ + offset);
  return place != 0 && place % 8 == 0 && memory_->holds(place, 8) ? *memory_->at(place) : 0;
}

}  // namespace reach
