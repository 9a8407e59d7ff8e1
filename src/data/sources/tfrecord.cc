// tfrecord(pattern), array_record(pattern): Examples in files.

#include "base/error.h"
#include "data/index/listing.h"
#include "data/records/example_source.h"
#include "data/source_call.h"
#include "store/file.h"

namespace tessera::data {
namespace {

using OpenSet = std::unique_ptr<RecordSet> (*)(std::vector<std::string>, RecordSetOptions);
using FirstRecord = std::string (*)(const std::vector<std::string>&, const std::string&);

std::shared_ptr<const Source> open(const char* kind, CallReader& call, const std::string& where, OpenSet open_set,
                                   FirstRecord first_record) {
  const std::string pattern = call.text("pattern");
  const FieldArguments arguments = read_field_arguments(call);
  call.finish();
  std::vector<std::string> paths = find_shards(pattern, where);
  ExampleFields fields = choose_fields(arguments, first_record(paths, where), where);
  RecordSetOptions options{
      pattern, fmt::format("{}({}, {})", kind, absolute_path(pattern), arguments.label_identity(fields.label)), where, {}, {}};
  if (!fields.label.empty()) options.find_label = example_label_finder(fields.label, arguments.several_labels);
  options.label_lists = arguments.several_labels;
  options.needs_labels = !fields.label.empty() && arguments.classes.empty();
  const std::string name = store::parent_path(paths.front());
  std::unique_ptr<RecordSet> records = open_set(std::move(paths), std::move(options));
  Labels labels = fields.label.empty() ? Labels() : Labels(arguments, records->index().labels(), where);
  return open_examples(name, std::move(records), std::move(fields), std::move(labels));
}

std::shared_ptr<const Source> make_tfrecord(CallReader& call, std::string_view where) {
  return open("tfrecord", call, std::string(where), open_tfrecords, first_tfrecord);
}

std::shared_ptr<const Source> make_array_record(CallReader& call, std::string_view where) {
  return open("array_record", call, std::string(where), open_array_records, first_array_record);
}

}  // namespace

const SourceKind kTfrecord{"tfrecord", "tfrecord(pattern[, image=image/encoded][, label=image/class/label])",
                           "TFRecord files of tf.train.Examples", make_tfrecord};
const SourceKind kArrayRecord{"array_record", "array_record(pattern[, image=image][, label=label])",
                              "ArrayRecord files of tf.train.Examples", make_array_record};

}  // namespace tessera::data
