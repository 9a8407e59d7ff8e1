#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "store/servers/object_server.h"

namespace tessera::store {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(BucketServer, ReasonsAreOfOneLine) {
  // Without credentials, as google-cloud-cpp has it.
  const std::string google =
      "google::cloud::Status(UNAVAILABLE: Retry policy exhausted, with a last message of Could not create a OAuth2 access "
      "token "
      "to authenticate the request. The request was not sent, as such an access token is required to complete the request "
      "successfully. Learn more about Google Cloud authentication at https://cloud.google.com/docs/authentication. The "
      "underlying error message was: PerformWork() - CURL error [6]=Could not resolve hostname error_info={reason=, ";
  EXPECT_EQ(short_reason(google),
            "UNAVAILABLE: Could not create a OAuth2 access token. PerformWork() - CURL error [6]=Could not resolve hostname");
  EXPECT_THAT(bucket_help(google), HasSubstr("gcloud auth application-default login"));
  const std::string amazon = "AWS Error ACCESS_DENIED during HeadObject operation: No response body.";
  EXPECT_EQ(short_reason(amazon), amazon);
  EXPECT_THAT(bucket_help(amazon), HasSubstr("aws sts get-caller-identity"));
  const std::string cut = short_reason("begins " + std::string(5000, 'x') + " Received HTTP status code: 404");
  EXPECT_LT(cut.size(), 180u);
  EXPECT_THAT(cut, StartsWith("begins xxx"));
  EXPECT_THAT(cut, EndsWith(" Received HTTP status code: 404"));
}

}  // namespace
}  // namespace tessera::store
