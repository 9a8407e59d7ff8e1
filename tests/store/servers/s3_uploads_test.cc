// Uploads that nobody ended, on a server here that answers as S3 does. tests/checkpoint/remote has them on moto.
#include "store/servers/s3_uploads.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/server.h"
#include "store/servers/object_server.h"

namespace tessera::store {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// 2013-05-24, of Amazon's examples (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
constexpr std::chrono::system_clock::time_point kExampleDay{std::chrono::seconds(1'369'353'600)};
const S3Access kExample{"https://examplebucket.s3.amazonaws.com", "us-east-1", "AKIAIOSFODNN7EXAMPLE",
                        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

TEST(S3Signature, IsThatOfAmazonsExamples) {
  EXPECT_THAT(s3_headers({"GET", "", "", {{"lifecycle", ""}}}, kExample, kExampleDay),
              ElementsAre("host: examplebucket.s3.amazonaws.com",
                          "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                          "x-amz-date: 20130524T000000Z",
                          "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                          "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
                          "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(s3_headers({"GET", "", "", {{"prefix", "J"}, {"max-keys", "2"}}}, kExample, kExampleDay),
              Contains(HasSubstr("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")));
}

// As botocore 1.44.5 signs it.
TEST(S3Signature, CoversEscapesAndTokens) {
  S3Access access = kExample;
  access.server = "http://localhost:9000";
  access.session_token = "the+token/=";
  const S3Request request{"DELETE", "data", "a b/+&=%\xc3\xa9~.bin", {{"uploadId", "x+/= y"}}};
  EXPECT_EQ(s3_url(request, access), "http://localhost:9000/data/a%20b/%2B%26%3D%25%C3%A9~.bin?uploadId=x%2B%2F%3D%20y");
  EXPECT_THAT(s3_headers(request, access, kExampleDay),
              AllOf(Contains("x-amz-security-token: the+token/="),
                    Contains(HasSubstr("Signature=9b2b0796f5cdcf76e56d2e3434a7585209a84839027f35b4b4091b7e96f664f0"))));
  access.access_key.clear();
  EXPECT_THAT(s3_headers(request, access, kExampleDay), ElementsAre("host: localhost:9000"));
}

TEST(S3Signature, RequestsGoToTheBucketsHost) {
  const auto url = [](const std::string& bucket, const std::string& key, const S3Access& access) {
    return s3_url({"GET", bucket, key, {}}, access);
  };
  EXPECT_EQ(url("data", "", {"", "eu-west-1"}), "https://data.s3.eu-west-1.amazonaws.com/");
  EXPECT_EQ(url("data", "a/b", {"", "cn-north-1"}), "https://data.s3.cn-north-1.amazonaws.com.cn/a/b");
  EXPECT_EQ(url("my.data", "a/b", {"", "eu-west-1"}), "https://s3.eu-west-1.amazonaws.com/my.data/a/b");
  EXPECT_EQ(url("Data_1", "a", {"", "us-east-1"}), "https://s3.us-east-1.amazonaws.com/Data_1/a") << "not that of data_1";
  EXPECT_EQ(url("data", "", {"http://localhost:9000", "x"}), "http://localhost:9000/data");
  EXPECT_EQ(url("data", "a", {"https://host/storage/s3", "x"}), "https://host/storage/s3/data/a");
  EXPECT_THAT(s3_headers({"GET", "data", "a", {}}, {"https://host/storage/s3", "x"}, kExampleDay), ElementsAre("host: host"));
}

std::string page_of(const std::string& inside) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListMultipartUploadsResult "
         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
         inside + "</ListMultipartUploadsResult>\n";
}

TEST(S3Answers, UploadsAreListed) {
  const S3UploadsPage page =
      parse_s3_uploads(page_of("<Bucket>data</Bucket><KeyMarker/><!-- <Upload> --><IsTruncated>true</IsTruncated>"
                               "<NextKeyMarker>b</NextKeyMarker><NextUploadIdMarker>2</NextUploadIdMarker>"
                               "<Upload><Key>a &amp;&lt;&gt;&quot;&apos;&#x1;&#233;&#x1F600;</Key><UploadId>1=</UploadId>"
                               "<Initiator><ID>x</ID><Key>of somebody</Key></Initiator></Upload>"
                               "<Upload a='>' b=\"/>\"><UploadId>2</UploadId><Key><![CDATA[<b>&amp;]]></Key></Upload>"));
  EXPECT_THAT(page.uploads, ElementsAre(S3Upload{"a &<>\"'\x01\xc3\xa9\xf0\x9f\x98\x80", "1="}, S3Upload{"<b>&amp;", "2"}));
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.next_key, "b");
  EXPECT_EQ(page.next_id, "2");
  const S3UploadsPage none = parse_s3_uploads(page_of("<IsTruncated> false </IsTruncated>"));
  EXPECT_THAT(none.uploads, IsEmpty());
  EXPECT_FALSE(none.more);
}

TEST(S3Answers, WhatIsNoListIsRefused) {
  std::string deep, many;
  for (int i = 0; i < 100'000; ++i) deep += "<a>", many += "<a/>";
  for (const std::string& xml : {std::string(),
                                 std::string("<html></html>"),
                                 std::string("no such page"),
                                 page_of("<Upload><Key>a</Key></Upload>"),
                                 page_of("<Upload><Key/><UploadId>1</UploadId></Upload>"),
                                 page_of("<IsTruncated>true</IsTruncated>"),
                                 page_of("<Upload><Key>&#0;</Key><UploadId>1</UploadId></Upload>"),
                                 page_of("<Upload><Key>&#xd800;</Key><UploadId>1</UploadId></Upload>"),
                                 page_of("<Upload><Key>&#x110000;</Key><UploadId>1</UploadId></Upload>"),
                                 page_of("<Upload><Key>&#99999999999999999999;</Key><UploadId>1</UploadId></Upload>"),
                                 page_of("<Upload><Key>&other;</Key><UploadId>1</UploadId></Upload>"),
                                 page_of("<Key>& </Key>"),
                                 page_of("<a></b>"),
                                 page_of("<a b='></a>"),
                                 page_of("<a/b>"),
                                 page_of("</a>"),
                                 page_of("<!DOCTYPE a>"),
                                 page_of(deep),
                                 page_of(many),
                                 page_of("") + "<a/>",
                                 page_of("").substr(0, 100)}) {
    EXPECT_THROW(parse_s3_uploads(xml), ServerError) << xml.substr(0, 300);
  }
}

TEST(S3Answers, RefusalsHaveAReason) {
  const S3Refusal denied =
      parse_s3_refusal("<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>");
  EXPECT_EQ(denied.code, "AccessDenied");
  EXPECT_EQ(denied.message, "no");
  for (const char* other : {"", "<html><Code>x</Code></html>", "Bad Gateway"})
    EXPECT_EQ(parse_s3_refusal(other).code, "") << other;
}

// Has uploads, in pages of two; asks for a signature.
class Bucket {
 public:
  Bucket() : server_({}, [this](const http::Request& request) { return answer(request); }) {
    ::setenv("http_proxy", "http://127.0.0.1:1", 1);  // which Arrow does not ask
    for (const char* name : {"no_proxy", "NO_PROXY"}) ::unsetenv(name);
  }
  ~Bucket() { ::unsetenv("http_proxy"); }
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;
  S3Access access() const { return {fmt::format("http://127.0.0.1:{}", server_.port()), "us-east-1", "key", "secret", ""}; }

  std::vector<S3Upload> uploads;
  int refusal = 0;   // the status of what is refused
  int refused = 99;  // so many answers are
  std::string code = "AccessDenied";
  bool repeats_first_page = false;
  bool has_no_end = false;  // then each page leads to another one
  std::vector<std::string> asked;

 private:
  http::Response answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    asked.push_back(request.method + " " + request.path);
    EXPECT_THAT(request.header("authorization").value_or(""), HasSubstr("Signature="));
    EXPECT_EQ(request.header("content-type"), std::nullopt) << "it would have to be signed";
    if (refusal != 0 && refused-- > 0)
      return {.status = refusal, .body = fmt::format("<Error><Code>{}</Code><Message>as planned</Message></Error>", code)};
    if (request.method == "GET" && request.path == "/data") return list(request);
    if (request.method != "DELETE" || !request.parameter("uploadId")) return {.status = 400};
    const S3Upload wanted{request.path.substr(std::string("/data/").size()), *request.parameter("uploadId")};
    const bool known = std::erase(uploads, wanted) > 0;
    return known ? http::Response{.status = 204}
                 : http::Response{.status = 404, .body = "<Error><Code>NoSuchUpload</Code></Error>"};
  }
  http::Response list(const http::Request& request) const {
    constexpr size_t kPage = 2;
    if (has_no_end)
      return {.body = page_of(fmt::format("<IsTruncated>true</IsTruncated><NextKeyMarker>{}</NextKeyMarker>", asked.size()))};
    const auto marker = [&](const char* name) { return repeats_first_page ? "" : request.parameter(name).value_or(""); };
    const std::string after = marker("key-marker"), after_id = marker("upload-id-marker");
    std::string inside;
    std::vector<S3Upload> page;
    bool more = false;
    for (const S3Upload& upload : uploads) {
      const bool is_after = upload.key > after || (upload.key == after && upload.id > after_id);
      if (!upload.key.starts_with(request.parameter("prefix").value_or("")) || !is_after) continue;
      more = page.size() == kPage;
      if (more) break;
      page.push_back(upload);
      inside += fmt::format("<Upload><Key>{}</Key><UploadId>{}</UploadId></Upload>", upload.key, upload.id);
    }
    inside += fmt::format("<IsTruncated>{}</IsTruncated>", more);
    if (more)
      inside += fmt::format("<NextKeyMarker>{}</NextKeyMarker><NextUploadIdMarker>{}</NextUploadIdMarker>", page.back().key,
                            page.back().id);
    return {.type = "application/xml", .body = page_of(inside)};
  }

  std::mutex mutex_;
  http::Server server_;
};

TEST(S3Uploads, AreListedPageByPageAndGivenUp) {
  Bucket bucket;
  for (const char* key : {"other/a", "run/a", "run/b", "run/b", "run/b", "run/c d+%", "runs/a"})
    bucket.uploads.push_back({key, fmt::format("id/{}=", bucket.uploads.size())});
  S3Uploads uploads("s3://data/run/", bucket.access());
  const std::vector<S3Upload> found = uploads.list();
  EXPECT_THAT(found, ElementsAre(S3Upload{"a", "id/1="}, S3Upload{"b", "id/2="}, S3Upload{"b", "id/3="}, S3Upload{"b", "id/4="},
                                 S3Upload{"c d+%", "id/5="}));
  EXPECT_EQ(bucket.asked.size(), 3u);
  for (const S3Upload& upload : found) uploads.abort(upload);
  EXPECT_THAT(bucket.uploads, ElementsAre(S3Upload{"other/a", "id/0="}, S3Upload{"runs/a", "id/6="}));
  EXPECT_NO_THROW(uploads.abort(found[0])) << "gone is gone";
  EXPECT_EQ(S3Uploads("s3://data", bucket.access()).list().size(), 2u);
}

TEST(S3Uploads, ListsEndWhateverTheServerSays) {
  Bucket bucket;
  for (const char* key : {"a", "b", "c"}) bucket.uploads.push_back({key, "1"});
  bucket.repeats_first_page = true;
  EXPECT_THAT(S3Uploads("s3://data", bucket.access()).list(), ElementsAre(S3Upload{"a", "1"}, S3Upload{"b", "1"}));
  bucket.asked.clear();
  bucket.has_no_end = true;
  EXPECT_THAT(S3Uploads("s3://data", bucket.access()).list(), IsEmpty());
  EXPECT_EQ(bucket.asked.size(), 100u);
}

TEST(S3Uploads, RefusalsSayWhatIsNeeded) {
  Bucket bucket;
  bucket.refusal = 403;
  try {
    S3Uploads("s3://data/run", bucket.access()).list();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "cannot list unfinished uploads below `s3://data/run`: HTTP status 403, AccessDenied: as planned");
    EXPECT_THAT(error.help(), AllOf(HasSubstr("s3:ListBucketMultipartUploads"), HasSubstr("s3:AbortMultipartUpload")));
  }
  EXPECT_EQ(bucket.asked.size(), 1u);
  bucket.code = "InvalidAccessKeyId";
  try {
    S3Uploads("s3://data/run", bucket.access()).abort({"a", "1"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("cannot remove the unfinished upload to `s3://data/run/a`"));
    EXPECT_THAT(error.help(), AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), Not(HasSubstr("s3:Abort"))));
  }
  bucket.code = "RequestTimeTooSkewed";
  try {
    S3Uploads("s3://data/run", bucket.access()).list();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.help(), HasSubstr("clock"));
  }
}

// Arrow has OpenSSL's defaults, libcurl its own.
TEST(S3Uploads, CertificatesAreThoseThatArrowTrusts) {
  const Bucket bucket;
  S3Access access = bucket.access();
  access.server.replace(0, 4, "https");
  ::setenv("SSL_CERT_FILE", "/no/such.pem", 1);
  try {
    S3Uploads("s3://data", access).list();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("/no/such.pem"));
  }
  ::unsetenv("SSL_CERT_FILE");
}

TEST(S3Uploads, WhatPassesIsTriedAgain) {
  Bucket bucket;
  bucket.uploads = {{"run/a", "1"}};
  bucket.refusal = 503, bucket.refused = 2, bucket.code = "SlowDown";
  EXPECT_EQ(S3Uploads("s3://data/run", bucket.access()).list().size(), 1u);
  EXPECT_EQ(bucket.asked.size(), 3u);
}

}  // namespace
}  // namespace tessera::store
