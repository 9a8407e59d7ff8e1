#pragma once
// What Arrow does not bound when it opens a Parquet file: how deep the schema nests. It walks schemas by functions that call
// themselves, so a file of a megabyte could run it out of stack.

#include <cstddef>
#include <optional>
#include <string_view>

#include "store/file.h"

namespace tessera::data {

inline constexpr size_t kMaxParquetDepth = 64;

// How deep the schema of a footer nests, a flat one 1; nothing where the bytes are no FileMetaData in Thrift's compact form.
std::optional<size_t> parquet_schema_depth(std::string_view footer);

// Throws a data Error that names `path` where the file has no footer, or its schema nests too deep.
void check_parquet_footer(const std::string& path, const store::ReadableFile& file);

}  // namespace tessera::data
