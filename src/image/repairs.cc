#include "image/repairs.h"

#include <fmt/core.h>

#include "base/text/text.h"

namespace tessera::image {
namespace {

struct Words {
  const char *name, *text;
};
constexpr Words kWords[kRepairs] = {
    {"truncated_filled", "truncated JPEGs, filled"}, {"damaged", "damaged JPEGs, decoded as far as they go"},
    {"turned", "turned as their EXIF says"},         {"cmyk", "in CMYK or YCCK, made RGB"},
    {"alpha", "with transparency, dropped"},         {"sixteen_bits", "of 16 bits a channel, made 8"},
};

}  // namespace

const char* repair_name(Repair repair) { return kWords[static_cast<size_t>(repair)].name; }

void RepairCounts::add(Repairs repairs) {
  for (size_t i = 0; i < kRepairs; ++i) counts_[i] += repairs.has(static_cast<Repair>(i));
}

std::string RepairCounts::text() const {
  std::string text;
  for (size_t i = 0; i < kRepairs; ++i) {
    if (counts_[i] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", human_count(counts_[i]), kWords[i].text);
  }
  return text;
}

bool RepairCounts::has_other_than(const RepairCounts& others) const {
  for (size_t i = 0; i < kRepairs; ++i) {
    if (counts_[i] > 0 && others.counts_[i] == 0) return true;
  }
  return false;
}

}  // namespace tessera::image
