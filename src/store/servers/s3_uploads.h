#pragma once
// Uploads in parts to S3 that nobody ended, as those of a process that was killed. Their parts are no objects and are listed nowhere
// else, but are kept, and paid for, until somebody gives the upload up. On Google Cloud Storage and Azure such uploads end by
// themselves within a week.

#include <memory>
#include <string>
#include <vector>

#include "http/web_client.h"
#include "store/servers/s3_answers.h"
#include "store/servers/s3_signature.h"

namespace tessera::store {

// Those to keys below `url`, s3://bucket/prefix. For one thread. All throw a data Error that says what the server said and what to do.
class S3Uploads {
 public:
  // As whom the module of buckets writes to `url`.
  explicit S3Uploads(const std::string& url);
  S3Uploads(const std::string& url, S3Access access);

  // Each key is relative to `url`. A hundred pages of the server at most.
  std::vector<S3Upload> list();
  // Gives one of them up, with its parts; no matter if it is gone already. Whoever still writes to it gets an error.
  void abort(const S3Upload& upload);

 private:
  std::string ask_server(const S3Request& request);

  const std::string url_;
  const S3Access access_;
  std::string bucket_, prefix_;  // the prefix ends with "/", or is empty
  http::WebClient client_;
};

// From the module of buckets (bucket_server.cc). Throws a data Error, as where there are no credentials.
S3Access s3_access(const std::string& url);

}  // namespace tessera::store
