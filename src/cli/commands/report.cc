// tessera report: what runs came to, as a page.
#include "pages/report/report.h"

#include "base/error.h"
#include "cli/command.h"

namespace tessera::cli {
namespace {

class Report final : public Command {
 public:
  Page page() const override {
    return {"report",
            "RUN [RUN …]",
            "what a run came to, or how several compare, as one HTML file",
            {{"tessera report runs/digits-1", "writes runs/digits-1/report/index.html"},
             {"tessera report runs/digits-1 --png", "and its pictures as PNG files"},
             {"tessera report runs/digits-1 runs/digits-2 --out compared", "curves laid over each other, recipes that differ"}},
            "Of one run: a verdict in words, curves, classes and what they were taken for, the images with the greatest loss,\n"
            "training images as the model sees them, where time went, memory and speed, recipe, command and version; tables\n"
            "as CSV files beside it. The page holds everything it shows. `tessera train` writes it at the end of a run."};
  }
  void declare(Flags& flags) override {
    flags.add("--out", "DIR", &options_.directory, "where to; RUN/report when not given, of several runs report");
    flags.add("--png", &options_.png, "pictures and curves as PNG files too");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words.empty()) throw usage_error("tessera report needs the directory of a run", {}, "tessera report runs/digits-1");
    print(report::write_report(words, options_));
    return Exit::kDone;
  }

 private:
  report::ReportOptions options_;
};

}  // namespace

const CommandEntry kReport = command_entry<Report>("report");

}  // namespace tessera::cli
