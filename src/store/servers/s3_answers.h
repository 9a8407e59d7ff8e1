#pragma once
// What servers of S3 answer in XML, as s3_uploads.cc reads it.

#include <string>
#include <string_view>
#include <vector>

namespace tessera::store {

// One that began and has neither ended nor been given up. A key may have several.
struct S3Upload {
  std::string key, id;
  bool operator==(const S3Upload&) const = default;
};

// A page of their list.
struct S3UploadsPage {
  std::vector<S3Upload> uploads;
  bool more = false;              // then the next page is asked for with these two
  std::string next_key, next_id;  // the id may be empty
};
// Throws ServerError for what is no such page.
S3UploadsPage parse_s3_uploads(std::string_view xml);

// Of an error; both empty for what is none.
struct S3Refusal {
  std::string code, message;  // "AccessDenied", "Access Denied"
};
S3Refusal parse_s3_refusal(std::string_view xml);

}  // namespace tessera::store
