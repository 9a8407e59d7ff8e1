#pragma once
// What was unusual about a file whose pixels were made nevertheless.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::image {

enum class Repair : uint8_t {
  kFilled,       // a truncated JPEG; what is missing was made up (DecodePolicy::fill_truncated)
  kDamaged,      // a JPEG with damage that libjpeg decodes past
  kTurned,       // turned upright as its EXIF orientation says
  kInk,          // CMYK or YCCK, made RGB
  kAlpha,        // transparency dropped
  kSixteenBits,  // a PNG or TIFF of 16 bits a channel, made 8
};
inline constexpr size_t kRepairs = 6;
const char* repair_name(Repair repair);  // "truncated_filled": for reports

// Those of one file.
class Repairs {
 public:
  void add(Repair repair) { bits_ |= bit(repair); }
  bool has(Repair repair) const { return (bits_ & bit(repair)) != 0; }
  bool any() const { return bits_ != 0; }
  Repairs& operator|=(Repairs other) {
    bits_ |= other.bits_;
    return *this;
  }

 private:
  static constexpr uint32_t bit(Repair repair) { return uint32_t{1} << static_cast<uint32_t>(repair); }
  uint32_t bits_ = 0;
};

// How many files had each.
class RepairCounts {
 public:
  void add(Repairs repairs);
  int64_t of(Repair repair) const { return counts_[static_cast<size_t>(repair)]; }
  // "3 CMYK or YCCK, made RGB; 1 truncated JPEGs, filled": those that are not zero.
  std::string text() const;
  // Whether one of them is among none of `others`.
  bool has_other_than(const RepairCounts& others) const;
  bool operator==(const RepairCounts&) const = default;

 private:
  std::array<int64_t, kRepairs> counts_{};
};

}  // namespace tessera::image
