#include "data/tools/convert/shard_writer.h"

#include <nlohmann/json.hpp>

#include "data/formats/array_record/array_record.h"
#include "data/formats/example.h"
#include "data/formats/tar.h"
#include "data/formats/tfrecord.h"
#include "image/codec/decode.h"

namespace tessera::data {
namespace {

using nlohmann::ordered_json;

std::string_view chars_of(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

ordered_json json_of(const TextValues& values) {
  if (values.size() == 1) return std::string(values[0]);
  ordered_json list = ordered_json::array();
  for (const std::string_view value : values) list.push_back(std::string(value));
  return list;
}

std::string example_of(const ConvertFields& fields, const std::string& id, const Sample& sample) {
  ExampleWriter example;
  example.bytes("image", chars_of(sample.image));
  example.bytes("file_name", id);
  if (fields.multi_label) {
    example.integer_list("labels", std::vector<int64_t>(sample.labels.begin(), sample.labels.end()));
  } else if (fields.labelled) {
    example.integer("label", sample.label);
  }
  for (size_t i = 0; i < fields.texts.size(); ++i) example.bytes_list(fields.texts[i], sample.texts[i]);
  return example.finish();
}

class TfrecordShard final : public ShardWriter {
 public:
  TfrecordShard(const ConvertFields& fields, store::WritableFile& file) : fields_(fields), file_(file) {}
  void add(int64_t, const std::string& id, const Sample& sample) override {
    const std::string record = example_of(fields_, id, sample);
    for (const std::string& part : {tfrecord_header(record), record, tfrecord_footer(record)})
      file_.write(store::as_bytes(part));
  }
  void finish() override {}

 private:
  const ConvertFields& fields_;
  store::WritableFile& file_;
};

class ArrayRecordShard final : public ShardWriter {
 public:
  ArrayRecordShard(const ConvertFields& fields, store::WritableFile& file) : fields_(fields), writer_(file) {}
  void add(int64_t, const std::string& id, const Sample& sample) override { writer_.add(example_of(fields_, id, sample)); }
  void finish() override { writer_.finish(); }

 private:
  const ConvertFields& fields_;
  ArrayRecordWriter writer_;
};

class TarShard final : public ShardWriter {
 public:
  TarShard(const ConvertFields& fields, store::WritableFile& file) : fields_(fields), file_(file) {}

  void add(int64_t index, const std::string& id, const Sample& sample) override {
    const std::string key = fmt::format("{:09}", index);
    ordered_json json = {{"file_name", id}};
    for (size_t i = 0; i < fields_.texts.size(); ++i) json[fields_.texts[i]] = json_of(sample.texts[i]);
    put(key + extension(sample.image), chars_of(sample.image));
    if (fields_.multi_label) json["labels"] = sample.labels;
    if (fields_.labelled && !fields_.multi_label) put(key + ".cls", std::to_string(sample.label));
    put(key + ".json", json.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    if (!fields_.texts.empty() && !sample.texts[0].empty()) put(key + ".txt", sample.texts[0][0]);
  }
  void finish() override { file_.write(store::as_bytes(tar_end())); }

 private:
  // Bytes that are no image are named as the usual one.
  static std::string extension(ByteSpan image) {
    const auto endings = image::format_endings(image::sniff_format(image));
    return fmt::format(".{}", endings.empty() ? "jpg" : endings[0]);
  }
  void put(const std::string& name, std::string_view data) {
    const auto size = static_cast<int64_t>(data.size());
    file_.write(store::as_bytes(tar_header(name, size)));
    file_.write(store::as_bytes(data));
    file_.write(store::as_bytes(tar_padding(size)));
  }

  const ConvertFields& fields_;
  store::WritableFile& file_;
};

}  // namespace

std::unique_ptr<ShardWriter> make_shard_writer(ConvertFormat format, const ConvertFields& fields, store::WritableFile& file) {
  switch (format) {
    case ConvertFormat::kTfrecord: return std::make_unique<TfrecordShard>(fields, file);
    case ConvertFormat::kArrayRecord: return std::make_unique<ArrayRecordShard>(fields, file);
    case ConvertFormat::kTar: break;
  }
  return std::make_unique<TarShard>(fields, file);
}

}  // namespace tessera::data
