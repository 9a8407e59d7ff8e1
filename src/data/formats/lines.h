#pragma once
// Files of lines.

#include <string>
#include <string_view>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "store/file.h"

namespace tessera::data {

// Every line that is not blank, without its end ("\n" or "\r\n") and without a byte-order mark. Throws as expect_no_zeros().
std::vector<Extent> scan_lines(const std::string& path, const store::ReadableFile& file);

// The first line that is not blank; empty when there is none.
std::string first_line(const std::string& path, const store::ReadableFile& file);

// Throws a data Error that names `path` where `bytes`, which begin at `offset` of the file, hold a zero: no text does. Lines in a
// block that a disk or a download lost would else be part of one line that can't be read, and a hole has any number of bytes.
void expect_no_zeros(const std::string& path, int64_t offset, std::string_view bytes);

}  // namespace tessera::data
