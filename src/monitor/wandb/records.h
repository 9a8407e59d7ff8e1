#pragma once
// The messages of a W&B run's file (wandb/proto/wandb_internal.proto) as bytes, and the little of them that is read back. Field
// numbers are named after the fields.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera::monitor {

// A key and its value as JSON.
using WandbItems = std::vector<std::pair<std::string, std::string>>;

struct WandbRun {
  std::string id, entity, project, group, job_type, name, notes, host;
  std::vector<std::string> tags;
  double start_time = 0;  // seconds since 1970
  std::string command, version;
};

// The content of a Record, each; wandb_record() makes the whole of it.
std::string wandb_header(const std::string& version);
std::string wandb_run(const WandbRun& run);
std::string wandb_environment(const WandbRun& run);
std::string wandb_config(const WandbItems& items);
// A row of the run's history.
std::string wandb_history(int64_t step, const WandbItems& items);
// The last value of each key; `runtime` in seconds.
std::string wandb_summary(const WandbItems& items, double runtime);
// A file below files/, to be uploaded.
std::string wandb_file(const std::string& path);
// A line of the console.
std::string wandb_output(double time, const std::string& line);
// The run was stopped, and will go on.
std::string wandb_preempting();
std::string wandb_exit(int exit_code, double runtime);

// With its number in the file, counted from 1.
std::string wandb_record(int64_t number, std::string_view content);

// What a record of an earlier start says, as far as it stays in the file.
struct WandbRow {
  int64_t step = 0;
  WandbItems items;
};
struct WandbOther {
  std::string content;  // as above: a file, or a line of the console
};
struct WandbStart {
  std::optional<double> time;
};
using WandbKept = std::variant<std::monostate, WandbRow, WandbOther, WandbStart>;
// std::monostate for every other record, and for bytes that are none.
WandbKept read_wandb_record(std::string_view bytes);

}  // namespace tessera::monitor
