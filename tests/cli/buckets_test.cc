// Data in buckets, on real servers of S3 and Google Cloud Storage that fail as tests/support/serve_buckets.py is told.

#ifdef TESSERA_HAS_BUCKETS

#include "store/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "cli/run_program.h"
#include "support/bucket_servers.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::BucketServers;

TEST(Buckets, TrainAsTheSameFilesDoFromADisk) {
  const TempFolder folder;
  write_images(folder / "train", 6);
  write_images(folder / "val", 2);
  write_file(folder / "recipe.toml", tiny_recipe());
  for (const char* set : {"train", "val"}) {
    const std::string source = fmt::format("folder({})", set);
    ASSERT_EQ(run_program({"data", "convert", source, "--to", "tar", "--out", fmt::format("sets/{}", set)}, folder.path()).exit,
              0);
    ASSERT_EQ(
        run_program({"data", "convert", source, "--to", "array_record", "--out", fmt::format("records/{}", set)}, folder.path())
            .exit,
        0);
  }
  fs::create_directories(folder / "bucket");
  fs::rename(folder / "sets", folder / "bucket/sets");
  fs::rename(folder / "records", folder / "bucket/records");
  BucketServers servers(folder / "bucket");
  const auto train = [&](const std::string& name, const std::string& data, const std::string& eval) {
    const Outcome run =
        run_program({"train", "recipe.toml", "--workdir", name, "data.source=" + data, "eval.val.data.source=" + eval},
                    folder.path(), servers.environment());
    EXPECT_EQ(run.exit, 0) << run.err;
    std::vector<Json> figures;
    std::istringstream lines(read_file(folder / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const Json all = Json::parse(line);
      for (const char* key : {"training_loss", "val/loss"}) {
        if (all.contains(key)) figures.push_back(all[key]);
      }
    }
    return figures;
  };
  const auto local = train("local", "wds(bucket/sets/train/train-*.tar)", "wds(bucket/sets/val/val-*.tar)");
  EXPECT_GE(local.size(), 3u);
  EXPECT_EQ(train("s3", "wds(s3://data/sets/train/train-*.tar)", "tfds(val, data_dir=s3://data/records, split=train)"), local);
  // The index of the shards is kept, and objects of Google Cloud Storage are found without folders.
  for (const char* source : {"wds(s3://data/sets/val/val-*.tar)", "tfds(val, data_dir=gs://data/records, split=train)"}) {
    const Outcome check = run_program({"data", "check", source}, folder.path(), servers.environment());
    EXPECT_THAT(check.out, HasSubstr("4 files")) << source << check.err;
  }
}

// Images beside a file of lines, one of them missing, a tokenizer, and copies of the samples on a disk.
TEST(Buckets, LinesImagesAndTokenizersAreRead) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    write_image(folder / "bucket" / fmt::format("images/{}.png", i), i % 2, i);
    lines += fmt::format("{{\"image\": \"images/{}.png\", \"label\": \"{}\", \"caption\": \"picture {}\"}}\n", i,
                         i % 2 == 0 ? "left" : "right", i % 3);
  }
  write_file(folder / "bucket/set.jsonl", lines);
  write_file(folder / "bucket/more.jsonl", lines + "{\"image\": \"images/none.png\", \"label\": \"left\"}\n");
  const Outcome made = run_program(
      {"data", "tokenizer", "jsonl(bucket/set.jsonl, text=caption)", "--kind", "word", "--out", "bucket/words.model"},
      folder.path());
  ASSERT_EQ(made.exit, 0) << made.err;
  write_images(folder / "val", 2);
  write_file(folder / "recipe.toml", tiny_recipe());
  BucketServers servers(folder / "bucket");
  const auto shown = [&](const std::string& root) {
    write_file(folder / "captions.toml",
               fmt::format("data = {{ source = \"jsonl({0}/set.jsonl, text=caption)\", batch = 2, pp = "
                           "\"decode | resize(8) | tokenize(8, model={0}/words.model, key=caption)\" }}\n",
                           root));
    const Outcome outcome = run_program({"data", "show", "captions.toml", "--json"}, folder.path(), servers.environment());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.out;
  };
  const std::string local = shown("bucket");
  EXPECT_THAT(local, HasSubstr("picture 2"));
  for (const char* root : {"s3://data", "gs://data"}) EXPECT_EQ(shown(root), local) << root;

  for (const char* workdir : {"first", "second"}) {
    const Outcome run = run_program({"train", "recipe.toml", "--workdir", workdir,
                                     "data.source=jsonl(s3://data/more.jsonl, label=label)", "data.cache=disk(cache, 1 GiB)"},
                                    folder.path(), servers.environment());
    EXPECT_EQ(run.exit, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("images/none.png")) << workdir;
  }
  EXPECT_EQ(read_file(folder / "first/summary.csv"), read_file(folder / "second/summary.csv"));
  EXPECT_FALSE(fs::is_empty(folder / "cache"));
}

TEST(Buckets, WhatCannotBeReadIsSaid) {
  const TempFolder folder;
  write_file(folder / "bucket/a.tar", std::string(1024, '\0'));
  BucketServers servers(folder / "bucket");
  const auto message = [&](const std::string& source) {
    const Outcome outcome = run_program({"data", "check", source}, folder.path(), servers.environment());
    EXPECT_EQ(outcome.exit, 3) << source;
    return outcome.err;
  };
  EXPECT_THAT(message("wds(s3://data/b.tar)"),
              AllOf(HasSubstr("cannot open `s3://data/b.tar`"), HasSubstr("look at its name")));
  EXPECT_THAT(message("wds(s3://other/b.tar)"), HasSubstr("cannot open `s3://other/b.tar`"));
  EXPECT_THAT(message("wds(gs://data/b.tar)"), HasSubstr("cannot open `gs://data/b.tar`"));
  EXPECT_THAT(message("wds(s3://data/b*.tar)"), HasSubstr("no object matches `s3://data/b*.tar`"));
  EXPECT_THAT(message("wds(s3://da*/b.tar)"), HasSubstr("wildcard in the bucket's name"));
  const Outcome other = run_program({"data", "check", "wds(hf://data/a.tar)"}, folder.path());
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("local file systems only"));
  const std::pair<const char*, const char*> kRefusals[] = {
      {"denied", "these credentials may not do that"}, {"elsewhere", "another region"}, {"expired", "may have expired"}};
  for (const auto& [fault, help] : kRefusals) {
    servers.fail({fault});
    EXPECT_THAT(message("wds(s3://data/a.tar)"), HasSubstr(help)) << fault;
  }
}

TEST(Buckets, BytesAreRightWhateverTheServersDo) {
  constexpr int64_t kSize = 900'001;
  const TempFolder folder;
  std::mt19937_64 random(1);
  std::string bytes(kSize, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  write_file(folder / "bucket/a.bin", bytes);
  BucketServers servers(folder / "bucket");
  const auto faults_of = [&](const std::string& url, const std::vector<std::string>& faults) {
    const auto object = store::files_at(url).open(url);
    servers.fail(faults, 2);
    std::string read(kSize, '\0');
    for (int64_t at = 0; at < kSize; at += 70'000) {
      const auto length = std::min<int64_t>(70'000, kSize - at);
      object->read(at, std::as_writable_bytes(std::span(read).subspan(static_cast<size_t>(at), static_cast<size_t>(length))));
    }
    EXPECT_TRUE(read == bytes) << url;
    return servers.fail({});
  };
  EXPECT_GE(faults_of("s3://data/a.bin", {"bad gateway", "gateway timeout", "too many requests", "reset", "close", "truncated",
                                          "long length", "short length", "reset in body", "drip", "late"}),
            11);
  EXPECT_GE(faults_of("gs://data/a.bin", {"drip", "late"}), 5);
}

}  // namespace
}  // namespace tessera::cli

#endif
