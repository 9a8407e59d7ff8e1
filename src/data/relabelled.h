#pragma once
// A source whose labels are places in another list of classes.

#include <memory>
#include <string>
#include <vector>

#include "data/source.h"

namespace tessera::data {

// `source` with labels that are places in `classes`, matched by the classes' names. Classes that the source lacks have no
// samples. Gives `source` itself where the lists are the same, and null where `source` has no classes, or one that `classes`
// lacks.
std::shared_ptr<const Source> relabelled(const std::shared_ptr<const Source>& source, const std::vector<std::string>& classes);

}  // namespace tessera::data
