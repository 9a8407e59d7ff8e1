#ifdef TESSERA_HAS_BUCKETS

#include "checkpoint/remote/unfinished_uploads.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/remote/run_copy.h"
#include "http/web_client.h"
#include "store/file.h"
#include "store/local/cache_directory.h"
#include "store/servers/buckets.h"
#include "store/servers/s3_uploads.h"
#include "store/temp_dir.h"
#include "support/bucket_servers.h"

namespace tessera::remote {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kUrl = "s3://data/run";
constexpr const char* kState = "checkpoints/step_000000009/state.safetensors";

class UnfinishedUploads : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TempDir();
    std::filesystem::create_directories(*directory_ / "bucket");
    servers_ = new testing::BucketServers(*directory_ / "bucket");
  }
  static void TearDownTestSuite() {
    delete servers_;
    delete directory_;
  }
  UnfinishedUploads() { store::set_cache_directory(*directory_ / "cache"); }
  ~UnfinishedUploads() override {
    store::set_cache_directory(before_);
    store::S3Uploads all("s3://data");
    for (const store::S3Upload& upload : all.list()) all.abort(upload);
    store::remove_object(kUrl);
    std::filesystem::remove_all(*directory_ / "cache");
  }

  // As a process that is killed then.
  static void begin(const std::string& key) {
    const store::S3Access access = store::s3_access("s3://data");
    const store::S3Request request{"POST", "data", key, {{"uploads", ""}}};
    http::WebOptions options;
    options.direct = true;
    EXPECT_EQ(http::WebClient(options).ask("POST", store::s3_url(request, access), {}).status, 200) << key;
  }
  // The keys of those that are there.
  static std::vector<std::string> unfinished() {
    std::vector<std::string> keys;
    for (const store::S3Upload& upload : store::S3Uploads("s3://data").list()) keys.push_back(upload.key);
    return keys;
  }
  // What is said meanwhile.
  static std::string remove() {
    ::testing::internal::CaptureStderr();
    remove_unfinished_uploads(
        kUrl, [](const std::string& name) { return name != "notes.tar"; }, [] {});
    return ::testing::internal::GetCapturedStderr();
  }

  static inline testing::TempDir* directory_ = nullptr;
  static inline testing::BucketServers* servers_ = nullptr;
  const std::string before_ = store::cache_directory();
};

// Those that others write may be under way.
TEST_F(UnfinishedUploads, OfTheRunAreRemovedBeforeItWrites) {
  const std::string odd = "run/checkpoints/step_000000009/a b+&<>'\"%\xc3\xa9.bin";
  for (const std::string& key :
       {fmt::format("run/{}", kState), fmt::format("run/{}", kState), odd, std::string("run/metrics.jsonl"),
        std::string("run/notes.tar"), std::string("run/other/big.tar"), std::string("run/finer/metrics.jsonl"),
        fmt::format("run/finer/{}", kState), fmt::format("run2/{}", kState), std::string("run")}) {
    begin(key);
  }
  ASSERT_EQ(unfinished().size(), 10u);
  RunCopy copy(kUrl, [](const auto&, const auto&) { return KeptCheckpoints{}; });
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  store::local_files().make_directories(store::join_path(copy.local(), "finer"));
  for (const char* name : {"recipe.toml", "metrics.jsonl", "finer/metrics.jsonl"})
    store::write_atomic(store::local_files(), store::join_path(copy.local(), name), "text");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(copy.finish());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("note: removed 4 unfinished uploads that an earlier start left below `s3://data/run`\n"));
  EXPECT_THAT(unfinished(), UnorderedElementsAre("run/notes.tar", "run/other/big.tar", "run/finer/metrics.jsonl",
                                                 fmt::format("run/finer/{}", kState), fmt::format("run2/{}", kState), "run"));
}

// Once the run's processes write, what is unfinished is theirs.
TEST_F(UnfinishedUploads, OfTheRunsOwnProcessesStay) {
  RunCopy copy(kUrl, [](const auto&, const auto&) { return KeptCheckpoints{}; });
  copy.bring_up_to_date(/*leaves_checkpoints=*/true);
  copy.leave_checkpoints();
  begin(fmt::format("run/{}", kState));
  store::local_files().make_directories(copy.local());
  copy.copy_before_commit();
  EXPECT_TRUE(copy.finish());
  EXPECT_THAT(unfinished(), ElementsAre(fmt::format("run/{}", kState)));
}

// All were listed by then.
TEST_F(UnfinishedUploads, StayWhereTheRunIsAnotherOnes) {
  begin(fmt::format("run/{}", kState));
  const auto lost = [] { throw std::runtime_error("another one's"); };
  EXPECT_THROW(remove_unfinished_uploads(
                   kUrl, [](const std::string&) { return true; }, lost),
               std::runtime_error);
  EXPECT_EQ(unfinished().size(), 1u);
  EXPECT_EQ(remove(), "note: removed 1 unfinished upload that an earlier start left below `s3://data/run`\n");
  EXPECT_EQ(remove(), "");
}

TEST_F(UnfinishedUploads, ThatMayNotBeRemovedAreANote) {
  for (const char* name : {kState, "metrics.jsonl"}) begin(fmt::format("run/{}", name));
  servers_->fail({"denied"});
  const std::string listing = remove();
  servers_->fail({"denied"}, 2, /*writes=*/true);  // the second of the two
  const std::string removing = remove();
  servers_->fail({});
  EXPECT_THAT(listing, AllOf(HasSubstr("note: parts that an earlier start may have left in S3 stay: cannot list"),
                             HasSubstr("HTTP status 403, AccessDenied"), HasSubstr("s3:ListBucketMultipartUploads")));
  EXPECT_THAT(removing, AllOf(HasSubstr("note: 1 unfinished upload that an earlier start left below `s3://data/run` stays: "),
                              HasSubstr("HTTP status 403"), HasSubstr("s3:AbortMultipartUpload")));
  for (const std::string& text : {listing, removing}) EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_EQ(unfinished().size(), 1u);
}

// Whichever of its parts fails: the requests are the begin, three parts, and the end or, where a part failed, the removal.
TEST_F(UnfinishedUploads, AreNotLeftByWritesThatFail) {
  const std::string file = *directory_ / "large", large = "s3://data/run/large";
  store::write_atomic(store::local_files(), file, std::string(size_t{24} << 20, 'x'));
  for (const int failing : {2, 3, 4}) {
    servers_->fail({"denied"}, failing, /*writes=*/true);
    EXPECT_THROW(store::upload_file(file, large), Error) << failing;
    EXPECT_GE(servers_->fail({}), 1);
    EXPECT_THAT(unfinished(), IsEmpty()) << failing;
  }
  EXPECT_FALSE(store::read_object(large));
}

TEST_F(UnfinishedUploads, AreLookedForInS3Alone) {
  ::testing::internal::CaptureStderr();
  remove_unfinished_uploads(
      "gs://data/run", [](const std::string&) { return true; }, [] { ADD_FAILURE(); });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tessera::remote

#endif
