#pragma once
// The C interface of tessera_parquet.so (modules/parquet), which holds all that needs Arrow's libraries. Loaded when a Parquet
// file is read or written, so that the program runs without them.

#include <cstdint>

extern "C" {

// What a column holds at a row: bytes or a text, a whole number, or a list of either.
enum TesseraParquetKind {
  TESSERA_PARQUET_NONE,
  TESSERA_PARQUET_BYTES,
  TESSERA_PARQUET_BYTES_LIST,
  TESSERA_PARQUET_INTEGER,
  TESSERA_PARQUET_INTEGER_LIST,
  TESSERA_PARQUET_OTHER
};

// One value, borrowed from its group.
struct TesseraParquetValue {
  int is_null;
  const char* data;  // bytes and texts
  int64_t size;
  int64_t integer;
};

// A text to write; null where data is.
struct TesseraParquetText {
  const char* data;
  int64_t size;
};

// A column to write: a value a row or, where `width` is not 1, a list of so many.
struct TesseraParquetColumn {
  const char* name;
  int64_t width;
  const struct TesseraParquetText* texts;  // the rows' one after the other; null: a column of numbers
  const float* numbers;                    // those of the first row
  int64_t stride;                          // from one row's numbers to the next row's
  const int64_t* counts;                   // of lists of texts of various lengths: those of the rows; null: `width`
};

// Where a file's bytes come from. Thread-safe.
struct TesseraParquetInput {
  void* context;
  int64_t size;
  // Fills `out` from `offset`; 0 where that fails, and the caller of the module knows why.
  int (*read)(void* context, int64_t offset, int64_t length, void* out);
};

// Functions that can fail return null or 0 and set `*error`, to be freed with free_text; it stays null where the system
// refused memory. All are thread-safe but close and
// free_*.
struct TesseraParquetApi {
  int32_t version;  // kTesseraParquetVersion
  // What `input` points to has to live until close().
  void* (*open)(const struct TesseraParquetInput* input, char** error);
  void (*close)(void* file);
  int64_t (*row_groups)(const void* file);
  int64_t (*rows)(const void* file, int64_t group);
  // Where a row group lies in the file, all columns of it.
  void (*extent)(const void* file, int64_t group, int64_t* offset, int64_t* length);
  // The value of a key of the file's metadata, or null; lives as long as the file.
  const char* (*metadata)(const void* file, const char* key);
  // Names of leaf columns, as "image.bytes"; lists on the way add nothing to a name. Null past the last; live as long as the
  // file.
  const char* (*column)(const void* file, int64_t index);
  int (*kind)(const void* file, const char* column);
  // These leaf columns of a row group, read whole.
  void* (*read_group)(const void* file, int64_t group, const char* const* columns, int64_t count, char** error);
  // How many values a row of a column has: of a list its length, else 1; -1 where it is null.
  int64_t (*count)(const void* group, int64_t column, int64_t row);
  // `item`: which of them.
  void (*value)(const void* group, int64_t column, int64_t row, int64_t item, struct TesseraParquetValue* value);
  int64_t (*group_bytes)(const void* group);
  void (*free_group)(void* group);
  // Writes a file of so many rows whole. 0 when it could not.
  int (*write)(const char* path, const struct TesseraParquetColumn* columns, int64_t count, int64_t rows, char** error);
  void (*free_text)(char* text);
};

enum { kTesseraParquetVersion = 4 };

// The only function that is exported: gives a TesseraParquetApi.
const void* tessera_parquet_api(void);
}
