#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "data/source.h"
#include "image/image_testing.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

void write_file(const std::string& path, const std::string& text) {
  image::testing::write_file(path, std::vector<uint8_t>(text.begin(), text.end()));
}

std::string error_of(const std::string& call, Exit code) {
  try {
    make_source(call, "data.source");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

std::set<std::string> ids_of(const Source& source) {
  std::set<std::string> ids;
  for (int64_t i = 0; i < source.size(); ++i) ids.insert(source.id(i));
  return ids;
}

std::string part(const std::string& source, const std::string& rest) { return "part(" + source + ", " + rest + ")"; }

// Classes a, b, c of so many files.
std::string write_classes(const TempDir& dir, const std::vector<int>& sizes) {
  for (size_t c = 0; c < sizes.size(); ++c) {
    for (int i = 0; i < sizes[c]; ++i) write_file(dir / fmt::format("{}/{:03}.png", char('a' + c), i), fmt::format("{}", i));
  }
  return "folder(" + dir.path().string() + ")";
}

TEST(Part, TrainHoldsWhatValidLeaves) {
  const TempDir dir;
  const std::string folder = write_classes(dir, {10, 23, 2});
  const auto whole = make_source(folder), train = make_source(part(folder, "train, 20 %")),
             valid = make_source(part(folder, "valid, 20 %"));
  std::set<std::string> both = ids_of(*train);
  both.merge(ids_of(*valid));
  EXPECT_EQ(both, ids_of(*whole));
  EXPECT_EQ(train->size() + valid->size(), whole->size());
  // To the nearest whole number: 2, 4.6, 0.4.
  EXPECT_EQ(valid->class_sizes(), (std::vector<int64_t>{2, 5, 0}));
  EXPECT_EQ(train->class_sizes(), (std::vector<int64_t>{8, 18, 2}));
  EXPECT_EQ(valid->class_names(), whole->class_names());
  EXPECT_NE(train->name(), valid->name());
  EXPECT_NE(train->fingerprint(), valid->fingerprint());
  Sample sample;
  for (int64_t i = 0; i < valid->size(); ++i) {
    ASSERT_EQ(valid->read(i, sample), std::nullopt);
    EXPECT_EQ(valid->class_names()[static_cast<size_t>(sample.label)], valid->id(i).substr(0, 1));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.image.data()), sample.image.size()),
              std::to_string(std::stoi(valid->id(i).substr(2, 3))));
  }
}

TEST(Part, EverySampleIsInOneFoldAndClassesAreSpreadEvenly) {
  const TempDir dir;
  const std::string folder = write_classes(dir, {10, 23, 7, 3});
  std::map<std::string, int> held;
  std::vector<std::vector<int64_t>> sizes;
  for (int k = 0; k < 4; ++k) {
    const auto valid = make_source(part(folder, fmt::format("valid, fold={}/4", k)));
    const auto train = make_source(part(folder, fmt::format("train, fold={}/4", k)));
    for (const std::string& id : ids_of(*valid)) {
      ++held[id];
      EXPECT_FALSE(ids_of(*train).contains(id));
    }
    sizes.push_back(*valid->class_sizes());
  }
  EXPECT_EQ(held.size(), 43U);
  for (const auto& [id, times] : held) EXPECT_EQ(times, 1) << id;
  for (size_t c = 0; c < 4; ++c) {
    const auto of_class = [c](const auto& fold) { return fold[c]; };
    const auto [least, most] = std::ranges::minmax(sizes, {}, of_class);
    EXPECT_LE(most[c] - least[c], 1);
  }
}

TEST(Part, ANewFileMovesOneOtherAtMost) {
  const TempDir dir;
  const std::string folder = write_classes(dir, {100, 50});
  const auto before = ids_of(*make_source(part(folder, "valid, 20 %")));
  write_file(dir / "a/0000_first.png", "new");
  const auto after = ids_of(*make_source(part(folder, "valid, 20 %")));
  int moved = 0;
  for (const std::string& id : before) moved += after.contains(id) ? 0 : 1;
  for (const std::string& id : after) moved += before.contains(id) || id.ends_with("first.png") ? 0 : 1;
  EXPECT_LE(moved, 1);
  EXPECT_NE(ids_of(*make_source(part(folder, "valid, 20 %, seed=1"))), after);
}

TEST(Part, SamplesWithoutClassesAndPartsOfPartsArePartedToo) {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += fmt::format("{{\"image\": \"{}.png\", \"text\": \"a\", \"kind\": {}}}\n", i, i % 2);
  write_file(dir / "list.jsonl", lines);
  const std::string jsonl = "jsonl(" + (dir / "list.jsonl");
  EXPECT_EQ(make_source(part(jsonl + ", text=text)", "valid, 25 %"))->size(), 5);
  EXPECT_EQ(make_source(part(jsonl + ", label=kind)", "valid, fold=1/5"))->class_sizes(), (std::vector<int64_t>{2, 2}));
  const std::string half = part(jsonl + ", label=kind)", "train, 50 %");
  EXPECT_EQ(make_source(part(half, "valid, 40 %"))->class_sizes(), (std::vector<int64_t>{2, 2}));
}

// 60 patients with 1 to 6 photographs each, most of them of one class; `patient` is in the files' names and in a column.
std::string write_patients(const TempDir& dir) {
  std::string table = "image,label,patient\n";
  for (int patient = 0; patient < 60; ++patient) {
    for (int i = 0; i <= patient % 6; ++i) {
      table +=
          fmt::format("p{:02}_{}.png,{},{}\n", patient, i, (patient / 6 + (i == 3 ? 1 : 0)) % 3 == 0 ? "ill" : "well", patient);
    }
  }
  write_file(dir / "list.csv", table);
  return "csv(" + (dir / "list.csv") + ")";
}

std::set<std::string> patients_of(const Source& source) {
  std::set<std::string> patients;
  for (const std::string& id : ids_of(source)) patients.insert(id.substr(0, 3));
  return patients;
}

TEST(Part, GroupsStayTogetherAndClassesAreSpread) {
  const TempDir dir;
  const std::string csv = write_patients(dir);
  const auto whole = make_source(csv);
  for (const std::string by : {"by=patient", "by=\"p(\\d+)_.*\""}) {
    std::set<std::string> seen;
    for (int k = 0; k < 5; ++k) {
      const auto valid = make_source(part(csv, fmt::format("valid, fold={}/5, {}", k, by)));
      const auto train = make_source(part(csv, fmt::format("train, fold={}/5, {}", k, by)));
      EXPECT_EQ(valid->size() + train->size(), whole->size());
      const std::set<std::string> held = patients_of(*valid), kept = patients_of(*train);
      for (const std::string& patient : held) {
        EXPECT_FALSE(kept.contains(patient)) << patient;
        EXPECT_TRUE(seen.insert(patient).second) << patient;
      }
      // No fold is further from its fifth of a class than by half of the largest group.
      for (size_t c = 0; c < 2; ++c) {
        EXPECT_NEAR(static_cast<double>((*valid->class_sizes())[c]), static_cast<double>((*whole->class_sizes())[c]) / 5, 3);
      }
      EXPECT_EQ(valid->column("patient")->size(), static_cast<size_t>(valid->size()));
    }
    EXPECT_EQ(seen.size(), 60U);
    const auto fifth = make_source(part(csv, "valid, 20 %, " + by));
    EXPECT_NEAR(static_cast<double>(fifth->size()), static_cast<double>(whole->size()) / 5, 4);
    EXPECT_NE(ids_of(*fifth), ids_of(*make_source(part(csv, "valid, 20 %, seed=3, " + by))));
  }
  // A column and the same thing in the names give the same groups, and so the same parts.
  EXPECT_EQ(ids_of(*make_source(part(csv, "valid, 30 %, by=\"p0?(\\d+)_.*\""))),
            ids_of(*make_source(part(csv, "valid, 30 %, by=patient"))));
}

TEST(Part, GroupsOfLinesOfJson) {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 30; ++i)
    lines += fmt::format("{{\"image\": \"{}.png\", \"scene\": {}, \"kind\": {}}}\n", i, i / 3, i % 2);
  write_file(dir / "list.jsonl", lines);
  const std::string jsonl = "jsonl(" + (dir / "list.jsonl") + ", label=kind)";
  EXPECT_EQ(make_source(part(jsonl, "valid, fold=1/5, by=scene"))->size(), 6);
  EXPECT_THAT(error_of(part(jsonl, "valid, fold=1/5, by=sceen"), Exit::kUsage), HasSubstr("by=`sceen` is no column"));
  // Two groups of a class each: neither fits a fifth.
  std::string halves;
  for (int i = 0; i < 24; ++i) halves += fmt::format("{{\"image\": \"{}.png\", \"kind\": {}}}\n", i, i / 12);
  write_file(dir / "halves.jsonl", halves);
  EXPECT_THAT(error_of(part("jsonl(" + (dir / "halves.jsonl") + ", label=kind)", "valid, 20 %, by=kind"), Exit::kData),
              AllOf(HasSubstr("has no samples"), HasSubstr("groups are held out whole")));
}

TEST(Part, MistakesInGroupsAreNamed) {
  const TempDir dir;
  const std::string csv = write_patients(dir), folder = write_classes(dir, {10, 4});
  EXPECT_THAT(error_of(part(csv, "valid, 20 %, by=pateint"), Exit::kUsage),
              AllOf(HasSubstr("by=`pateint` is no column"), HasSubstr("image, label, patient")));
  EXPECT_THAT(error_of(part(csv, "valid, 20 %, by=\"p(9.)_.*\""), Exit::kData),
              AllOf(HasSubstr("p00_0.png"), HasSubstr("has no group"), HasSubstr("the whole name")));
  EXPECT_THAT(error_of(part(csv, "valid, 20 %, by=\"p(\""), Exit::kUsage), HasSubstr("regular expression"));
  // The first of two tables has the column.
  write_file(dir / "list_more.csv", "image,label\nq0.png,ill\nq1.png,well\n");
  EXPECT_THAT(error_of(part("csv(" + (dir / "list*.csv") + ")", "valid, 20 %, by=patient"), Exit::kData),
              AllOf(HasSubstr("q0.png"), HasSubstr("has no group")));
  EXPECT_THAT(error_of(part(folder, "valid, 20 %, by=patient"), Exit::kUsage),
              AllOf(HasSubstr("no columns"), HasSubstr("a/0")));
  EXPECT_THAT(error_of(part(csv, "valid, fold=0/61, by=patient"), Exit::kData), HasSubstr("60 groups"));
  EXPECT_THAT(error_of(part(folder, "valid, fold=0/2, by=\"(.)/.*\""), Exit::kData), HasSubstr("has no training images"));
}

TEST(Part, MistakesAreNamed) {
  const TempDir dir;
  const std::string folder = write_classes(dir, {10, 1});
  EXPECT_THAT(error_of(part(folder, "valid, 60 %"), Exit::kData), AllOf(HasSubstr("`b`"), HasSubstr("no training images")));
  EXPECT_THAT(error_of(part(folder, "test, 60 %"), Exit::kUsage), AllOf(HasSubstr("`test`"), HasSubstr("valid")));
  EXPECT_THAT(error_of(part(folder, "valid"), Exit::kUsage), HasSubstr("neither a share nor a fold"));
  EXPECT_THAT(error_of(part(folder, "valid, 20 %, fold=0/5"), Exit::kUsage), HasSubstr("both"));
  EXPECT_THAT(error_of(part(folder, "valid, 3 %"), Exit::kData), HasSubstr("has no samples"));
  for (const char* share : {"0 %", "100 %", "3 epochs", "20", "0.2"}) {
    EXPECT_THAT(error_of(part(folder, fmt::format("valid, {}", share)), Exit::kUsage), HasSubstr("between 0 and 100"));
  }
  for (const char* fold : {"5/5", "0", "0/1", "-1/5", "0/5x", "x/5", "0/"}) {
    EXPECT_THAT(error_of(part(folder, fmt::format("valid, fold={}", fold)), Exit::kUsage), HasSubstr("K/N")) << fold;
  }
  EXPECT_THAT(error_of(part("fake(images=1e12, classes=2)", "valid, 1 %"), Exit::kUsage), HasSubstr("too many to part"));
  EXPECT_THAT(error_of(part("fodler(x)", "valid, 1 %"), Exit::kUsage), HasSubstr("folder"));
}

}  // namespace
}  // namespace tessera::data
