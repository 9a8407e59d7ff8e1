#pragma once
// Requests to S3 that carry a signature, for what Arrow's filesystems have no call for.

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace tessera::store {

// What a server of S3 has to know of who asks. Without an access key requests are not signed.
struct S3Access {
  std::string server;  // "http://localhost:9000", maybe with the beginning of a path; empty: Amazon's
  std::string region, access_key, secret_key;
  std::string session_token;  // empty: none
};

// A request without a body.
struct S3Request {
  std::string method;
  std::string bucket, key;                   // the key may be empty; neither is escaped
  std::map<std::string, std::string> query;  // neither
};

// Where the request goes. Amazon has a host for each bucket, but not where its name has a dot, which the certificate does not
// cover, or what names of hosts do not have, as some of before 2018.
std::string s3_url(const S3Request& request, const S3Access& access);

// Its headers ("Name: value"), all of them, with a signature of version 4 that is good for a few minutes from `now` on
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
std::vector<std::string> s3_headers(const S3Request& request, const S3Access& access,
                                    std::chrono::system_clock::time_point now);

}  // namespace tessera::store
