#pragma once
// The C interface of tessera_buckets.so (modules/buckets), which reads and writes objects of S3, Google Cloud Storage and Azure
// through Arrow's filesystems. Loaded when the first path of such a bucket is opened, so that the program runs without Arrow's
// libraries.

#include <cstdint>

extern "C" {

enum TesseraBucketsKind { TESSERA_BUCKETS_NOTHING, TESSERA_BUCKETS_OBJECT, TESSERA_BUCKETS_FOLDER };

struct TesseraBucketsInfo {
  int32_t kind;     // TesseraBucketsKind
  int64_t size;     // bytes, of an object
  int64_t changed;  // nanoseconds since 1970; 0: not known
};

// `name` is relative to the folder that was listed.
typedef void (*TesseraBucketsVisit)(void* context, const char* name, const struct TesseraBucketsInfo* info);

// Puts the next bytes of what is written into `out`, `capacity` of them at most, and gives their number: 0 at the end, -1 to give
// up.
typedef int64_t (*TesseraBucketsNext)(void* context, void* out, int64_t capacity);

// Who asks a server of S3, and where that is. An empty access key: nobody in particular.
struct TesseraBucketsAccess {
  const char* server;  // "http://localhost:9000"; empty: Amazon's
  const char *region, *access_key, *secret_key;
  const char* session_token;  // empty: none
};

// What it is called with lives during the call.
typedef void (*TesseraBucketsTell)(void* context, const struct TesseraBucketsAccess* access);

// URLs are s3://bucket/key, gs://bucket/key and az://container/key, the key as it is (no %XX, no query). Functions that fail give null, -1 or 0 and
// set `*error`, to be freed with free_text; it stays null where the system refused memory. All are thread-safe but close.
struct TesseraBucketsApi {
  int32_t version;  // kTesseraBucketsVersion
  // Asks the server for the object's size and version, and reads that size only. Where `size` is not negative it is the object's,
  // from a listing, and nothing is asked: then its tag is empty.
  void* (*open)(const char* url, int64_t size, char** error);
  void (*close)(void* object);
  int64_t (*size)(const void* object);
  // The object's ETag or generation, which changes when it is written again; empty where the server tells none.
  const char* (*tag)(const void* object);
  // How many bytes were read into `out`; fewer than `length` where the object ends before.
  int64_t (*read)(void* object, int64_t offset, int64_t length, void* out, char** error);
  // 1, or 0 on failure.
  int (*info)(const char* url, struct TesseraBucketsInfo* info, char** error);
  // What is in a folder, of any depth where `deep`, in no particular order; 1, or 0 on failure.
  int (*list)(const char* url, int deep, void* context, TesseraBucketsVisit visit, char** error);
  // Writes an object anew, in parts; it is there when all of it is. 1, or 0 on failure: then it is as it was, or not there. Where
  // next() gave up, the caller knows why, and `*error` does not.
  int (*write)(const char* url, void* context, TesseraBucketsNext next, char** error);
  // Whether or not it is there, a folder with all that is in it; 1, or 0 on failure.
  int (*remove)(const char* url, char** error);
  // As whom `url`, s3://…, is asked, for requests that are not above; 1, or 0 on failure.
  int (*access)(const char* url, void* context, TesseraBucketsTell tell, char** error);
  void (*free_text)(char* text);
};

// The only function that is exported: gives a TesseraBucketsApi.
const void* tessera_buckets_api(void);
}

constexpr int32_t kTesseraBucketsVersion = 4;
