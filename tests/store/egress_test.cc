// Where machines and buckets are, from metadata servers here that answer as the clouds' do.

#include "store/servers/egress.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "http/server.h"

namespace tessera::store {
namespace {

CloudRegion region(const char* text) { return parse_region(text).value(); }

TEST(Egress, RegionsArePairsOfACloudAndAName) {
  EXPECT_EQ(region("gcp:us-central1"), (CloudRegion{"gcp", "us-central1"}));
  EXPECT_EQ(region("aws:EU-WEST-1").text(), "aws:eu-west-1");
  for (const char* wrong : {"", "gcp", "gcp:", "moon:base", "us-central1"}) EXPECT_FALSE(parse_region(wrong)) << wrong;
}

TEST(Egress, CostsMoreTheFurtherItGoes) {
  const double none = egress_price(region("gcp:us-central1"), region("gcp:us-central1"));
  const double near = egress_price(region("gcp:us-central1"), region("gcp:us-east1"));
  const double far = egress_price(region("gcp:us-central1"), region("gcp:europe-west4"));
  const double out = egress_price(region("gcp:us-central1"), region("aws:us-east-1"));
  EXPECT_EQ(none, 0);
  EXPECT_LT(none, near);
  EXPECT_LT(near, far);
  EXPECT_LT(far, out);
  EXPECT_EQ((Egress{region("aws:us-east-1"), region("aws:us-west-2"), 0.02}.dollars(1'000'000'000'000)), 20);
  EXPECT_TRUE(spans(region("gcp:us"), region("gcp:us-central1")));
  EXPECT_TRUE(spans(region("gcp:nam4"), region("gcp:us-central1")));
  EXPECT_FALSE(spans(region("gcp:eu"), region("gcp:us-central1")));
  EXPECT_FALSE(spans(region("gcp:us-east1"), region("gcp:us-central1")));
  EXPECT_FALSE(spans(region("gcp:us"), region("aws:us-east-1")));
}

// What a process of its own says, since the machine is asked once a process. The server is this one's.
std::string asked_in_child(const std::function<void()>& prepare) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    prepare();
    const auto& found = machine_region();
    const std::string text = found ? found->text() : "none";
    const bool written = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text(100, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], text.data(), text.size()))));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST(Egress, MetadataServersSayWhereAMachineIs) {
  const http::Server server({}, [](const http::Request& request) -> http::Response {
    if (request.path == "/computeMetadata/v1/instance/zone" && request.header("metadata-flavor") == "Google")
      return {.body = "projects/123/zones/europe-west4-a"};
    if (request.path == "/latest/api/token" && request.method == "PUT") return {.body = "token"};
    if (request.path == "/latest/meta-data/placement/region" && request.header("x-aws-ec2-metadata-token") == "token")
      return {.body = "eu-central-1"};
    return {.status = 403};
  });
  const std::string host = fmt::format("127.0.0.1:{}", server.port());
  setenv("no_proxy", "127.0.0.1", 1);
  for (const char* name :
       {"GCE_METADATA_HOST", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "TESSERA_MACHINE_REGION", "AWS_EC2_METADATA_DISABLED"}) {
    unsetenv(name);
  }
  EXPECT_EQ(asked_in_child([&] { setenv("GCE_METADATA_HOST", host.c_str(), 1); }), "gcp:europe-west4");
  EXPECT_EQ(asked_in_child([&] { setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", ("http://" + host).c_str(), 1); }),
            "aws:eu-central-1");
  EXPECT_EQ(asked_in_child([&] { setenv("TESSERA_MACHINE_REGION", "gcp:asia-east1", 1); }), "gcp:asia-east1");
  EXPECT_EQ(asked_in_child([&] { setenv("GCE_METADATA_HOST", "127.0.0.1:1", 1); }), "none");
}

}  // namespace
}  // namespace tessera::store
