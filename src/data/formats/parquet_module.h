#pragma once
// The C interface of tessera_parquet.so (modules/parquet), which holds all that needs Arrow's libraries. Loaded when a parquet
// source is opened, so that the program runs without them.

#include <cstdint>

extern "C" {

// What a column holds.
enum TesseraParquetKind { TESSERA_PARQUET_NONE, TESSERA_PARQUET_BYTES, TESSERA_PARQUET_INTEGER, TESSERA_PARQUET_OTHER };

// One value, borrowed from its group.
struct TesseraParquetValue {
  int is_null;
  const char* data;  // bytes and texts
  int64_t size;
  int64_t integer;
};

// Functions that can fail return null and set `*error`, to be freed with free_text. All are thread-safe but close and free_*.
struct TesseraParquetApi {
  int32_t version;  // kTesseraParquetVersion
  void* (*open)(const char* path, char** error);
  void (*close)(void* file);
  int64_t (*row_groups)(const void* file);
  int64_t (*rows)(const void* file, int64_t group);
  // The value of a key of the file's metadata, or null; lives as long as the file.
  const char* (*metadata)(const void* file, const char* key);
  // Names of leaf columns, as "image.bytes"; null past the last; live as long as the file.
  const char* (*column)(const void* file, int64_t index);
  int (*kind)(const void* file, const char* column);
  // These leaf columns of a row group, read whole.
  void* (*read_group)(const void* file, int64_t group, const char* const* columns, int64_t count, char** error);
  void (*value)(const void* group, int64_t column, int64_t row, struct TesseraParquetValue* value);
  int64_t (*group_bytes)(const void* group);
  void (*free_group)(void* group);
  void (*free_text)(char* text);
};

enum { kTesseraParquetVersion = 1 };

// The only function that is exported: "tessera_parquet_api".
const struct TesseraParquetApi* tessera_parquet_api(void);
}
