#pragma once
// MAT-files of version 5, as MATLAB and scipy.io.savemat write them: of a variable that is a struct array, fields that are texts or
// single numbers. ("MAT-File Format", MathWorks, chapter 1.) ImageNet's devkit says in one which class is which. Little-endian alone,
// which every machine of today writes.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

struct MatValue {
  std::string text;              // of a row of characters, as UTF-8
  std::optional<double> number;  // of an array of one number
};
// A value for each requested field, in that order. It has neither text nor number where the field holds something else.
using MatStruct = std::vector<MatValue>;

// The elements of the struct array `variable`, in the file's order. Throws a data Error at `where` for what is no such file, has no
// such variable or no such field, and for more than some 64 MiB of packed or unpacked bytes.
std::vector<MatStruct> read_mat_structs(std::string_view bytes, const std::string& where, const std::string& variable,
                                        const std::vector<std::string>& fields);

}  // namespace tessera::data
