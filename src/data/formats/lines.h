#pragma once
// Files of lines.

#include <string>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "store/file.h"

namespace tessera::data {

// Every line that is not blank, without its end ("\n" or "\r\n") and without a byte-order mark.
std::vector<Extent> scan_lines(const store::ReadableFile& file);

// The first line that is not blank; empty when there is none.
std::string first_line(const store::ReadableFile& file);

}  // namespace tessera::data
