#pragma once
// Archives of small data sets, in the structure of the published ones.

#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/format_testing.h"
#include "data/formats/tar.h"
#include "data/tools/prepare/prepare.h"
#include "image/codec/encode_jpeg.h"

namespace tessera::data::testing {

namespace fs = std::filesystem;
using image::testing::TempDir;
// Names and bytes, in order.
using Members = std::vector<std::pair<std::string, std::string>>;

inline void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  image::testing::write_file(path, {text.begin(), text.end()});
}

inline std::string tar_of(const Members& members) {
  std::string out;
  for (const auto& [name, bytes] : members) {
    const auto size = static_cast<int64_t>(bytes.size());
    out += tar_header(name, size) + bytes + tar_padding(size);
  }
  return out + tar_end();
}

// The header of a member of another kind: '2' is a symbolic link, '5' a folder.
inline std::string special_member(const std::string& name, char kind, const std::string& target = {}) {
  std::string header = tar_header(name, 0);
  header[156] = kind;
  header.replace(157, target.size(), target);
  std::fill_n(header.begin() + 148, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return header;
}

inline std::string gzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline void write_zip(const std::string& path, const Members& members) {
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  ASSERT_NE(archive, nullptr) << code;
  for (const auto& [name, bytes] : members) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    ASSERT_GE(zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8), 0) << zip_strerror(archive);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

// A picture that no other number gives.
inline std::string picture(int number) {
  const std::vector<uint8_t> bytes =
      image::encode_jpeg(image::testing::photo(24 + number % 5, 20, static_cast<uint32_t>(number)).view(), 80);
  return {bytes.begin(), bytes.end()};
}

// Paths below a folder with their bytes, but the lock.
inline std::map<std::string, std::string> content(const fs::path& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename() != ".lock")
      files[entry.path().lexically_relative(folder).string()] = as_string(image::testing::read_file(entry.path()));
  }
  return files;
}

// The message with which `body` fails, after checking its exit code.
template <class Body>
std::string failure(Exit code, Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing failed";
  return {};
}

// Runs `prepare_into(dir, files)`, which prepares a set in one thread, again and again, and lets every single operation on files
// fail, or ends the process there; then once more to the end. A folder that has its name must be whole whenever that is.
void expect_to_go_on(const std::function<void(const std::string& dir, store::FileSystem& files)>& prepare_into,
                     const std::vector<std::string>& folders);

}  // namespace tessera::data::testing
