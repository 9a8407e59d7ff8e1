#pragma once
// Tables as text: a row a record, fields between separators (RFC 4180). A field in double quotes may hold separators, line breaks
// and, doubled, quotes. Spaces around a field without quotes are no part of it; records may end in "\n" or "\r\n".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "store/file.h"

namespace tessera::data {

// Every record that is not blank, without its end and without a byte-order mark; the header, where there is one, is the first.
// Throws a data Error that names `path` for text in UTF-16, and as expect_no_zeros() (data/formats/lines.h).
std::vector<Extent> scan_csv(const std::string& path, const store::ReadableFile& file, char separator);

// The first record; empty when there is none.
std::string first_csv_record(const std::string& path, const store::ReadableFile& file, char separator);

// The fields of a record, which are its only one; nothing where a quote has no end.
std::optional<std::vector<std::string>> parse_csv_record(std::string_view record, char separator);

}  // namespace tessera::data
