#include "data/format_testing.h"

#include <nlohmann/json.hpp>

#include "store/local/cache_directory.h"

namespace tessera::data::testing {
namespace {
// No test reads an index that an earlier run kept, unless it says so.
[[maybe_unused]] const bool kNoCache = (store::set_cache_directory(""), true);
}  // namespace

const std::vector<ReferenceSample>& reference_samples() {
  static const std::vector<ReferenceSample> samples = [] {
    std::vector<ReferenceSample> out;
    for (const auto& row : nlohmann::json::parse(as_string(image::testing::read_file(kFormats + "/samples.json")))) {
      out.push_back({image::testing::read_file(kFormats + "/images/" + row["image"].get<std::string>()),
                     row["label"].get<int32_t>(), row["caption"].get<std::string>(),
                     row["captions"].get<std::vector<std::string>>()});
    }
    return out;
  }();
  return samples;
}

void expect_samples(const Source& source, const std::vector<size_t>& which) {
  ASSERT_EQ(source.size(), static_cast<int64_t>(which.size()));
  Sample sample;
  // Twice, and back to front the second time: what is cached reads the same.
  for (size_t k = 0; k < 2 * which.size(); ++k) {
    const size_t i = k < which.size() ? k : 2 * which.size() - 1 - k;
    const ReferenceSample& wanted = reference_samples()[which[i]];
    const auto failed = source.read(static_cast<int64_t>(i), sample);
    ASSERT_FALSE(failed) << i << ": " << *failed;
    EXPECT_TRUE(std::ranges::equal(sample.image, wanted.image)) << i;
    EXPECT_TRUE(source.class_names().empty() || sample.label == wanted.label) << i;
    ASSERT_EQ(sample.texts.size(), source.text_fields().size());
    EXPECT_TRUE(sample.texts.empty() || sample.texts[0][0] == wanted.caption) << i;
    // The bytes past the image may be read.
    uint64_t sum = 0;
    for (size_t p = 0; p < PaddedBuffer::kPadding; ++p) sum += sample.image.data()[sample.image.size() + p];
    EXPECT_LE(sum, PaddedBuffer::kPadding * 255);
  }
}

void expect_captions(const Source& source, size_t field) {
  ASSERT_EQ(source.size(), static_cast<int64_t>(reference_samples().size()));
  Sample sample;
  for (size_t i = 0; i < reference_samples().size(); ++i) {
    const auto failed = source.read(static_cast<int64_t>(i), sample);
    ASSERT_FALSE(failed) << i << ": " << *failed;
    EXPECT_THAT(sample.texts[field], ::testing::ElementsAreArray(reference_samples()[i].captions)) << i;
  }
}

std::vector<size_t> range(size_t begin, size_t end) {
  std::vector<size_t> out;
  for (size_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

std::string open_error(const std::string& call, Exit code) {
  try {
    make_source(call, "data.source");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.where(), "data.source") << error.what();
    return error.what();
  }
  return "accepted";
}

std::string as_string(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

void make_old(const std::filesystem::path& path) {
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
}

TempCache::TempCache() { store::set_cache_directory(dir_.path().string()); }
TempCache::~TempCache() { store::set_cache_directory(""); }

std::vector<std::string> TempCache::indexes() const {
  std::vector<std::string> paths;
  if (!std::filesystem::exists(dir_ / "index")) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "index")) paths.push_back(entry.path().string());
  return paths;
}

}  // namespace tessera::data::testing
