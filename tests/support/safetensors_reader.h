#pragma once
// Reads a safetensors file of reference values in tests: tensors by name, and the JSON of its `config` metadata.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::testing {

struct ReferenceTensor {
  std::string dtype;  // "U8", "F32", …
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

struct ReferenceFile {
  std::map<std::string, ReferenceTensor> tensors;
  nlohmann::json config;
};

inline ReferenceFile read_references(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + path);
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const size_t data = sizeof header_bytes + header_bytes;
  ReferenceFile result;
  const nlohmann::json header = nlohmann::json::parse(file.substr(sizeof header_bytes, header_bytes));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (entry.contains("config")) result.config = nlohmann::json::parse(entry["config"].get<std::string>());
      continue;
    }
    const auto begin = entry.at("data_offsets").at(0).get<size_t>(), end = entry.at("data_offsets").at(1).get<size_t>();
    result.tensors[name] = {
        entry.at("dtype"),
        entry.at("shape"),
        {file.begin() + static_cast<std::ptrdiff_t>(data + begin), file.begin() + static_cast<std::ptrdiff_t>(data + end)}};
  }
  return result;
}

}  // namespace tessera::testing
