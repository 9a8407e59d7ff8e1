// Data in buckets, on real servers of S3 and Google Cloud Storage that fail as tests ask (tests/support/scripts/serve_buckets.py).

#ifdef TESSERA_HAS_BUCKETS

#include "store/servers/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "cli/run_program.h"
#include "support/bucket_servers.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::BucketServers;

class Buckets : public ::testing::Test {
 protected:
  static void TearDownTestSuite() { servers_.reset(); }

  // The servers of all these tests, with what is in `folder` alone.
  static BucketServers& servers_of(const fs::path& folder) {
    if (servers_)
      servers_->serve(folder);
    else
      servers_ = std::make_unique<BucketServers>(folder);
    return *servers_;
  }

 private:
  static inline std::unique_ptr<BucketServers> servers_;
};

TEST_F(Buckets, TrainAsTheSameFilesDoFromADisk) {
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
  BucketServers& servers = servers_of(folder / "bucket");
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
TEST_F(Buckets, LinesImagesAndTokenizersAreRead) {
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
  BucketServers& servers = servers_of(folder / "bucket");
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

TEST_F(Buckets, WhatCannotBeReadIsSaid) {
  const TempFolder folder;
  write_file(folder / "bucket/a.tar", std::string(1024, '\0'));
  BucketServers& servers = servers_of(folder / "bucket");
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
  EXPECT_THAT(message("folder(s3://data/none)"), HasSubstr("s3://data/none"));
  EXPECT_THAT(message("folder(s3://other)"), HasSubstr("s3://other"));
  const Outcome azure = run_program({"data", "check", "wds(az://data/a.tar)"}, folder.path());
  EXPECT_THAT(azure.err, AllOf(HasSubstr("AZURE_STORAGE_ACCOUNT"), HasSubstr("export AZURE_STORAGE_ACCOUNT=NAME")));
  EXPECT_EQ(azure.exit, 3);
  const std::pair<const char*, const char*> kRefusals[] = {
      {"denied", "these credentials may not do that"}, {"elsewhere", "another region"}, {"expired", "may have expired"}};
  for (const auto& [fault, help] : kRefusals) {
    servers.fail({fault});
    EXPECT_THAT(message("wds(s3://data/a.tar)"), HasSubstr(help)) << fault;
  }
}

// What a run measured, in order.
std::vector<Json> figures_of(const fs::path& run) {
  std::vector<Json> figures;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json all = Json::parse(line);
    for (const char* key : {"training_loss", "val/loss"}) {
      if (all.contains(key)) figures.push_back(all[key]);
    }
  }
  return figures;
}

TEST_F(Buckets, AnObjectThatIsReplacedWhileItIsReadIsRefused) {
  const TempFolder folder;
  fs::create_directories(folder / "bucket");
  servers_of(folder / "bucket");
  for (const std::string url : {"s3://data/part", "gs://data/part"}) {
    store::write_object(url, std::string(300'000, 'a'));
    const auto file = store::files_at(url).open(url);
    std::byte part[10];
    file->read(0, part);
    store::write_object(url, std::string(1000, 'b'));
    try {
      file->read(200'000, part);
      ADD_FAILURE() << url;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("another version of it took its place while it was read")) << url;
    }
    EXPECT_EQ(store::read_object(url).value_or("").size(), 1000u);
  }
}

TEST_F(Buckets, FoldersAreListedOnceAndRecipesAreRead) {
  const TempFolder folder;
  write_images(folder / "bucket/train", 6);
  write_images(folder / "bucket/val", 2);
  write_file(folder / "bucket/val/.hidden/x.png", "no image");
  std::string recipe = tiny_recipe();
  for (const char* set : {"train", "val"}) {
    const std::string source = fmt::format("folder({})", set);
    recipe.replace(recipe.find(source), source.size(), fmt::format("folder(bucket/{})", set));
  }
  write_file(folder / "bucket/recipe.toml", recipe);
  BucketServers& servers = servers_of(folder / "bucket");
  const auto run = [&](const std::vector<std::string>& args) {
    return run_program(args, folder.path(), servers.environment());
  };
  ASSERT_EQ(run({"train", "bucket/recipe.toml", "--workdir", "local"}).exit, 0);
  const auto local = figures_of(folder / "local");
  EXPECT_GE(local.size(), 3u);
  for (const std::string root : {"s3://data", "gs://data"}) {
    const std::string name = root.substr(0, 2), index = root + "/train/.tessera-index";
    EXPECT_FALSE(store::read_object(index));
    const Outcome trained = run({"train", root + "/recipe.toml", "--workdir", name, "data.source=folder(" + root + "/train)",
                                 "eval.val.data.source=folder(" + root + "/val)"});
    EXPECT_EQ(trained.exit, 0) << trained.err;
    EXPECT_EQ(figures_of(folder / name), local) << root;
    EXPECT_TRUE(store::read_object(index)) << root;

    // What came after the listing is seen by `data index` alone.
    store::upload_file(folder / "bucket/val/left/0.png", root + "/train/left/more.png");
    const Outcome check = run({"data", "check", root + "/train"});
    EXPECT_THAT(check.out, HasSubstr("12 files")) << check.err;
    EXPECT_THAT(check.err, HasSubstr("12 files, as listed on"));
    const Outcome listed = run({"data", "index", "folder(" + root + "/train)"});
    EXPECT_THAT(listed.out, AllOf(HasSubstr("13 samples, 2 classes"), HasSubstr("an epoch reads"))) << listed.err;
    EXPECT_THAT(run({"data", "check", root + "/train"}).out, HasSubstr("13 files"));

    // A damaged list is made anew, also where it can't be kept.
    store::write_object(index, store::read_object(index)->substr(0, 100));
    servers.fail({"denied"}, 1, /*writes=*/true);
    const Outcome read_only = run({"data", "check", root + "/train"});
    servers.fail({});
    EXPECT_THAT(read_only.out, HasSubstr("13 files")) << read_only.err;
    EXPECT_THAT(read_only.err, HasSubstr("can't be kept beside them"));
  }
  const Outcome missing = run({"train", "s3://data/none.toml"});
  EXPECT_EQ(missing.exit, 3);
  EXPECT_THAT(missing.err, HasSubstr("cannot open `s3://data/none.toml`"));
}

TEST_F(Buckets, ParquetIsReadByRowGroups) {
  const TempFolder folder;
  fs::create_directories(folder / "bucket");
  fs::copy(testing::source_path("tests/references/formats/parquet"), folder / "bucket/parquet", fs::copy_options::recursive);
  BucketServers& servers = servers_of(folder / "bucket");
  const auto check = [&](const std::string& root, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"data", "check", "parquet(" + root + "/parquet/train-*.parquet, text=caption)", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run_program(args, folder.path(), servers.environment());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    Json report = outcome.json().at(0).at("sources").at(0);
    report.erase("source"), report.erase("call");
    return report;
  };
  const Json local = check("bucket");
  for (const std::string root : {"s3://data", "gs://data"}) EXPECT_EQ(check(root), local) << root;
  servers.fail({"bad gateway", "reset", "truncated", "slow down"}, 3);
  EXPECT_EQ(check("s3://data"), local);
  EXPECT_GT(servers.fail({}), 0);
  const Outcome missing =
      run_program({"data", "check", "parquet(s3://data/none.parquet)"}, folder.path(), servers.environment());
  EXPECT_EQ(missing.exit, 3);
  EXPECT_THAT(missing.err, HasSubstr("cannot open `s3://data/none.parquet`"));
}

// The same objects as the files that it writes here, also after an interruption.
TEST_F(Buckets, DataSetsAreWritten) {
  const TempFolder folder;
  write_images(folder / "train", 16);
  write_file(folder / "bucket/other/notes.txt", "of another project");
  BucketServers& servers = servers_of(folder / "bucket");
  const auto convert = [&](const std::string& format, const std::string& out) {
    return run_program({"data", "convert", "folder(train)", "--to", format, "--out", out, "--shard-size", "2KiB"},
                       folder.path(), servers.environment());
  };
  for (const std::string format : {"tar", "tfrecord", "array_record"}) {
    ASSERT_EQ(convert(format, "set-" + format).exit, 0);
    std::map<std::string, std::string> local;
    for (const auto& entry : fs::recursive_directory_iterator(folder / ("set-" + format))) {
      const std::string name = entry.path().lexically_relative(folder / ("set-" + format)).string();
      if (entry.is_regular_file() && name != ".lock") local[name] = read_file(entry.path());
    }
    EXPECT_GE(local.size(), 5u);
    for (const std::string root : {"s3://data/sets/set-", "gs://data/sets/set-"}) {
      const std::string out = root + format;
      const Outcome written = convert(format, out);
      ASSERT_EQ(written.exit, 0) << written.err;
      EXPECT_EQ(written.out, out + "\n");
      std::map<std::string, std::string> there;
      store::list_objects(out, [&](const std::string& name, const store::ListedObject&) {
        there[name] = *store::read_object(store::join_path(out, name));
      });
      EXPECT_TRUE(there == local) << out;

      const std::string shard =
          std::ranges::find_if(local, [&](const auto& file) { return file.first.find("00000") != std::string::npos; })->first;
      store::remove_object(store::join_path(out, shard));
      const Outcome again = convert(format, out);
      EXPECT_EQ(again.exit, 0) << again.err;
      EXPECT_THAT(again.err, HasSubstr("of them there before"));
      EXPECT_TRUE(*store::read_object(store::join_path(out, shard)) == local[shard]) << out;
    }
  }
  const Outcome full = convert("tar", "s3://data/other");
  EXPECT_EQ(full.exit, 2);
  EXPECT_THAT(full.err, HasSubstr("is not empty"));
  EXPECT_FALSE(fs::exists(folder / "s3:"));
}

TEST_F(Buckets, WeightsComeAndGo) {
  const TempFolder folder;
  const std::string reference = testing::source_path("tests/references/timm_local_dir");
  fs::create_directories(folder / "bucket");
  fs::copy(reference, folder / "bucket/model");
  fs::create_directories(folder / "bucket/images/nested");
  fs::copy(reference + "/image.png", folder / "bucket/images/nested");
  BucketServers& servers = servers_of(folder / "bucket");
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--cache-dir", (folder / "cache").string()});
    return run_program(args, folder.path(), servers.environment());
  };
  const auto logits = [&](const std::string& from, const std::string& image) {
    const Outcome outcome = run({"predict", "--from", from, image, "--json", "--logits"});
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.json().at(0).at("logits");
  };
  const Json wanted = logits(reference, reference + "/image.png");
  for (const std::string root : {"s3://data", "gs://data"}) {
    EXPECT_EQ(logits(root + "/model", root + "/model/image.png"), wanted);
    EXPECT_EQ(logits(root + "/model", root + "/images"), wanted);  // all files of a folder
    const Outcome exported = run({"export", "--from", root + "/model", "--to", root + "/out/copy"});
    EXPECT_EQ(exported.exit, 0) << exported.err;
    EXPECT_EQ(logits(root + "/out/copy", reference + "/image.png"), wanted);
    std::vector<std::string> names;
    store::list_objects(root + "/out/copy", [&](const std::string& name, const auto&) { names.push_back(name); });
    EXPECT_THAT(names, ::testing::UnorderedElementsAre("SHA256SUMS", "config.json", "model.safetensors"));
    const Outcome refused = run({"export", "--from", root + "/model", "--to", root + "/out/copy"});
    EXPECT_EQ(refused.exit, 2);
    EXPECT_THAT(refused.err, HasSubstr("is there already"));
    EXPECT_EQ(run({"export", "--from", root + "/model", "--to", root + "/out/copy", "--overwrite"}).exit, 0);

    // An object that was written anew is fetched anew, and compared with its checksum.
    const std::string weights = root + "/out/copy/model.safetensors";
    std::string bytes = *store::read_object(weights);
    bytes.back() ^= 1;
    store::write_object(weights, bytes);
    const Outcome damaged = run({"predict", "--from", root + "/out/copy", reference + "/image.png"});
    EXPECT_EQ(damaged.exit, 3);
    EXPECT_THAT(damaged.err, HasSubstr("its SHA-256 is not the one in"));
    const Outcome none = run({"predict", "--from", root + "/none", reference + "/image.png"});
    EXPECT_EQ(none.exit, 2);
    EXPECT_THAT(none.err, HasSubstr("holds no checkpoint of a run"));
  }
  EXPECT_TRUE(fs::is_empty(folder / "cache/staged"));
}

// Each is one message with what to do, whether data are read or written.
TEST_F(Buckets, RefusalsSayWhatToDo) {
  const TempFolder folder;
  write_images(folder / "train", 2);
  fs::create_directories(folder / "bucket");
  fs::copy(folder / "train", folder / "bucket/train", fs::copy_options::recursive);
  BucketServers& servers = servers_of(folder / "bucket");
  struct Case {
    const char *fault, *scheme, *help;
  };
  const Case kCases[] = {
      {"denied", "s3", "these credentials may not do that"},
      {"denied", "gs", "these credentials may not do that"},
      {"expired", "s3", "the credentials expired"},
      {"expired", "gs", "no credentials"},
      {"elsewhere", "s3", "another region"},
      {"full", "s3", "quota"},
      {"full", "gs", "quota"},
  };
  for (const auto& [fault, scheme, help] : kCases) {
    servers.fail({fault}, 1, /*writes=*/true);
    const Outcome outcome = run_program(
        {"data", "convert", "folder(train)", "--to", "tar", "--out", fmt::format("{}://data/{}/set", scheme, fault)},
        folder.path(), servers.environment());
    servers.fail({});
    EXPECT_EQ(outcome.exit, 3) << fault << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(help)) << fault << scheme;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 2) << outcome.err;
  }
}

TEST_F(Buckets, ReadingAcrossRegionsIsRefused) {
  const TempFolder folder;
  write_images(folder / "bucket/train", 3);
  BucketServers& servers = servers_of(folder / "bucket");
  const auto index = [&](const std::string& url, const std::string& machine, bool allow = false) {
    std::map<std::string, std::string> environment = servers.environment();
    environment["TESSERA_MACHINE_REGION"] = machine;
    std::vector<std::string> args = {"data", "index", "folder(" + url + ")"};
    if (allow) args.emplace_back("--allow-egress");
    return run_program(args, folder.path(), environment);
  };
  // moto's bucket is in us-east-1, the emulator's in the multi-region US.
  for (const auto& [url, machine] :
       {std::pair{"s3://data/train", "aws:eu-west-1"}, std::pair{"s3://data/train", "gcp:us-east1"},
        std::pair{"gs://data/train", "gcp:europe-west4"}}) {
    const Outcome refused = index(url, machine);
    EXPECT_EQ(refused.exit, 2) << url << machine;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("this machine in " + std::string(machine)), HasSubstr("once costs about $"),
                                   HasSubstr("--allow-egress")));
    const Outcome allowed = index(url, machine, true);
    EXPECT_EQ(allowed.exit, 0) << allowed.err;
    EXPECT_THAT(allowed.err, HasSubstr("once costs about $"));
  }
  const Outcome near = index("gs://data/train", "gcp:us-central1");
  EXPECT_EQ(near.exit, 0) << near.err;
  EXPECT_THAT(near.err, HasSubstr("once costs about $0.00"));
  const Outcome same = index("s3://data/train", "aws:us-east-1");
  EXPECT_EQ(same.exit, 0) << same.err;
  EXPECT_THAT(same.err, ::testing::Not(HasSubstr("costs")));
  const Outcome wrong = index("s3://data/train", "moon");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("TESSERA_MACHINE_REGION"));
}

TEST_F(Buckets, BytesAreRightWhateverTheServersDo) {
  constexpr int64_t kSize = 900'001;
  const TempFolder folder;
  std::mt19937_64 random(1);
  std::string bytes(kSize, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  write_file(folder / "bucket/a.bin", bytes);
  BucketServers& servers = servers_of(folder / "bucket");
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
