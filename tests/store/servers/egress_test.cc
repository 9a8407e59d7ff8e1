// Where machines and buckets are, from metadata servers here that answer as the clouds' do.

#include "store/servers/egress.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

// A process of its own, since the machine is asked once a process. It is made before this one has threads: a fork takes over locks
// that other threads hold, which sanitizers don't get over. Then it waits to be told where the server is.
class Child {
 public:
  explicit Child(const std::function<void(const std::string& host)>& prepare) {
    int host[2], said[2];
    EXPECT_EQ(::pipe(host), 0);
    EXPECT_EQ(::pipe(said), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      prepare(read(host[0]));
      const auto& found = machine_region();
      const bool written = write(said[1], found ? found->text() : "none");
      ::_exit(written ? 0 : 1);
    }
    ::close(host[0]);
    ::close(said[1]);
    host_ = host[1];
    said_ = said[0];
  }
  std::string answer(const std::string& host) {
    EXPECT_TRUE(write(host_, host));
    std::string text = read(said_);
    ::close(host_);
    ::close(said_);
    ::waitpid(pid_, nullptr, 0);
    return text;
  }

 private:
  static bool write(int to, const std::string& text) {
    return ::write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  static std::string read(int from) {
    std::string text(100, '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(from, text.data(), text.size()))));
    return text;
  }
  pid_t pid_ = 0;
  int host_ = -1, said_ = -1;
};

TEST(Egress, MetadataServersSayWhereAMachineIs) {
  setenv("no_proxy", "127.0.0.1", 1);
  for (const char* name :
       {"GCE_METADATA_HOST", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "TESSERA_MACHINE_REGION", "AWS_EC2_METADATA_DISABLED"}) {
    unsetenv(name);
  }
  Child google([](const std::string& host) { setenv("GCE_METADATA_HOST", host.c_str(), 1); });
  Child amazon([](const std::string& host) { setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", ("http://" + host).c_str(), 1); });
  Child named([](const std::string&) { setenv("TESSERA_MACHINE_REGION", "gcp:asia-east1", 1); });
  Child alone([](const std::string&) { setenv("GCE_METADATA_HOST", "127.0.0.1:1", 1); });
  const http::Server server({}, [](const http::Request& request) -> http::Response {
    if (request.path == "/computeMetadata/v1/instance/zone" && request.header("metadata-flavor") == "Google")
      return {.body = "projects/123/zones/europe-west4-a"};
    if (request.path == "/latest/api/token" && request.method == "PUT") return {.body = "token"};
    if (request.path == "/latest/meta-data/placement/region" && request.header("x-aws-ec2-metadata-token") == "token")
      return {.body = "eu-central-1"};
    return {.status = 403};
  });
  const std::string host = fmt::format("127.0.0.1:{}", server.port());
  EXPECT_EQ(google.answer(host), "gcp:europe-west4");
  EXPECT_EQ(amazon.answer(host), "aws:eu-central-1");
  EXPECT_EQ(named.answer(host), "gcp:asia-east1");
  EXPECT_EQ(alone.answer(host), "none");
}

}  // namespace
}  // namespace tessera::store
