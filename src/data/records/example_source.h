#pragma once
// A source whose records are tf.train.Examples.

#include <memory>
#include <string>
#include <vector>

#include "data/records/labels.h"
#include "data/records/record_set.h"

namespace tessera::data {

// The names of the features to read.
struct ExampleFields {
  std::string image, label;  // label empty: none
  std::vector<std::string> texts;
};

// From the arguments and a first record; what they do not name is looked for: image/encoded or image, image/class/label or
// label. Throws a data Error that lists the record's features when one is missing.
ExampleFields choose_fields(const FieldArguments& arguments, std::string_view first_record, const std::string& where);

// Finds each record's label, or with `list` all its labels. A record that is no Example has none.
FindLabel example_label_finder(const std::string& key, bool list);

// `ranges` of the set one after the other; all of it when there are none.
std::shared_ptr<const Source> open_examples(std::string name, std::unique_ptr<RecordSet> records, ExampleFields fields,
                                            Labels labels, std::vector<SampleRange> ranges = {});

}  // namespace tessera::data
