// tpu-vm:NAME: one process on each host of a Cloud TPU that is there, by gcloud and ssh.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text/text.h"
#include "cluster/launch/launcher.h"
#include "cluster/launch/processes/child.h"
#include "cluster/launch/remote_run.h"
#include "cluster/launch/tpu.h"

namespace tessera::launch {
namespace {

constexpr const char* kMarker = "@command";  // where gcloud shows a command, another one is put

std::vector<std::string> gcloud(const Request& request, const std::string& verb, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"gcloud", "compute", "tpus", "tpu-vm", verb, request.where};
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), request.options.begin(), request.options.end());
  return words;
}

// Once: gcloud makes a key and has the hosts take it.
std::vector<std::string> key_words(const Request& request) {
  return gcloud(request, "ssh", {"--worker=all", "--command=true", "--quiet"});
}
// What gcloud would run to reach the hosts: a line for each.
std::vector<std::string> show_words(const Request& request) {
  return gcloud(request, "ssh", {"--worker=all", fmt::format("--command={}", kMarker), "--quiet", "--dry-run"});
}

void check_name(const Request& request) {
  if (!request.where.empty() && request.where[0] != '-') return;
  throw usage_error("no TPU is named", {}, example_of(kTpuVm));
}

std::string help_for(const std::string& said) {
  if (said.find("SSH agent") != std::string::npos)
    return "eval \"$(ssh-agent)\" starts the agent in this shell, where none runs; gcloud wants it for several hosts";
  return "is the TPU there, and its zone said? --option=--zone=ZONE; --dry-run with --topology shows how one is made";
}

// What it wrote to stdout and stderr. A device Error where it fails.
std::vector<std::string> run_gcloud(const std::vector<std::string>& words) {
  std::vector<std::string> lines;
  ChildOptions options;
  options.name = "gcloud";
  options.command = words;
  options.input = "";
  options.on_line = [&lines](const std::string& line) { lines.push_back(line); };
  Child child(std::move(options));
  child.close_input();
  child.wait();
  if (child.exit_code() == 127) throw device_error("`gcloud` is not installed here", {}, "it is part of Google's Cloud SDK");
  if (child.exit_code() != 0) {
    std::string said = "it says nothing";
    for (const std::string& line : lines) {
      if (line.starts_with("ERROR")) said = line;
    }
    throw device_error(fmt::format("the hosts are not reached: {}", said), command_line(words), help_for(said));
  }
  return lines;
}

// Of gcloud's lines "/usr/bin/ssh -t … user@address -- @command".
std::vector<RemoteHost> hosts_of(const std::vector<std::string>& lines) {
  std::vector<RemoteHost> hosts;
  for (const std::string& line : lines) {
    std::vector<std::string> words;
    for (const std::string& word : split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.empty() || words.back() != kMarker) continue;
    words.back().clear();
    std::erase(words, "-t");  // no terminal: it would end the process when the connection breaks
    words.insert(words.begin() + 1, {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
                                     "-o", "ServerAliveCountMax=3"});
    hosts.push_back({fmt::format("worker-{}", hosts.size()), std::move(words)});
  }
  if (hosts.empty())
    throw device_error("gcloud names no hosts of the TPU", {}, "is your gcloud older than `tpu-vm ssh --dry-run`?");
  return hosts;
}

Plan plan_tpu_vm(const Request& request) {
  check_name(request);
  if (request.topology.empty()) {
    throw usage_error("how many hosts the TPU has is known when it is reached, or from --topology", {},
                      "a dry run needs it: --topology v5e:16x16");
  }
  const TpuSlice slice = find_slice(request.topology);
  std::vector<RemoteHost> hosts;
  for (int64_t i = 0; i < slice.hosts; ++i) {
    hosts.push_back({fmt::format("worker-{}", i), gcloud(request, "ssh", {fmt::format("--worker={}", i)})});
    hosts.back().shell.emplace_back("--command=");
  }
  Plan plan = plan_remote_run(request, hosts);
  std::vector<std::string> notes = {
      "to make the TPU, which costs money until it is deleted:",
      "  " + command_line(
                 gcloud(request, "create", {"--accelerator-type=" + slice.accelerator_type, "--version=" + slice.runtime})),
      "to delete it:",
      "  " + command_line(gcloud(request, "delete", {})),
      "launch runs first, for a key and the hosts' addresses:",
      "  " + command_line(key_words(request)),
      "  " + command_line(show_words(request))};
  plan.notes.insert(plan.notes.begin(), notes.begin(), notes.end());
  return plan;
}

Exit run_tpu_vm(const Request& request) {
  check_name(request);
  log_line(fmt::format("gcloud   looks for the hosts of {}", request.where));
  run_gcloud(key_words(request));
  return run_on_hosts(request, hosts_of(run_gcloud(show_words(request))));
}

}  // namespace

const Launcher kTpuVm = {
    "tpu-vm",        "tpu-vm:NAME", "one process on each host of a Cloud TPU; --option=--zone=ZONE goes to gcloud",
    "tpu-vm:my-tpu",
    /*copies=*/true, plan_tpu_vm,   run_tpu_vm};

}  // namespace tessera::launch
