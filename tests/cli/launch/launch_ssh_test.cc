// Runs on several hosts, which are sshd on addresses of this machine, and network namespaces.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "cli/launch/namespaces.h"
#include "cli/launched_run.h"
#include "cli/run_program.h"
#include "support/free_port.h"
#ifdef TESSERA_HAS_BUCKETS
#include "support/bucket_servers.h"
#endif

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void run_command(const std::string& command) { ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command; }

// sshd with keys of its own, and a user's configuration that knows hosts by short names.
class SshServers {
 public:
  SshServers() {
    if (::geteuid() == 0) fs::create_directories("/run/sshd");
    run_command(fmt::format("ssh-keygen -q -t ed25519 -N '' -f {}/host", folder_.path().string()));
    run_command(fmt::format("ssh-keygen -q -t ed25519 -N '' -f {}/user", folder_.path().string()));
    run_command(fmt::format("ssh-keygen -q -t ed25519 -N '' -f {}/stranger", folder_.path().string()));
  }
  ~SshServers() {
    for (const pid_t pid : servers_) {
      ::kill(pid, SIGTERM);
      ::waitpid(pid, nullptr, 0);
    }
  }
  SshServers(const SshServers&) = delete;
  SshServers& operator=(const SshServers&) = delete;

  std::string config() const { return folder_ / "config"; }
  // A server on that address, started by words before its own: {"ip", "netns", "exec", "x"}. Again where one was killed. What
  // hosts keep of a launch stays from test to test, since the plugin is large, unless the host has another home.
  void serve(const std::string& name, const std::string& address, std::vector<std::string> words = {},
             const std::string& home = testing::build_cache_path() + "/launch_home") {
    fs::remove(folder_ / ("log_" + name));
    const std::string key = read_file(folder_ / "host.pub");
    append("known", fmt::format("[{}]:{} {}", address, port_, key));
    add_name(name, address, "user");
    const fs::path file = folder_ / ("sshd_" + name);
    fs::create_directories(home);
    write_file(file, fmt::format("ListenAddress {0}:{1}\nHostKey {2}/host\nAuthorizedKeysFile {2}/user.pub\nStrictModes no\n"
                                 "PasswordAuthentication no\nPidFile none\nSetEnv HOME={3} XDG_CONFIG_HOME={4}\n",
                                 address, port_, folder_.path().string(), home, testing::config_path()));
    words.insert(words.end(), {"/usr/sbin/sshd", "-D", "-f", file, "-E", folder_ / ("log_" + name)});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    servers_.push_back(pid);
    while (read_file(folder_ / ("log_" + name)).find("Server listening") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // A name for an address, with a key of the folder.
  void add_name(const std::string& name, const std::string& address, const std::string& key) {
    append("config", fmt::format("Host {0}\n  HostName {1}\n  Port {2}\n  IdentityFile {3}/{4}\n  IdentitiesOnly yes\n"
                                 "  UserKnownHostsFile {3}/known\n  GlobalKnownHostsFile none\n",
                                 name, address, port_, folder_.path().string(), key));
  }

 private:
  void append(const std::string& file, const std::string& text) const { std::ofstream(folder_ / file, std::ios::app) << text; }

  TempFolder folder_;
  const uint16_t port_ = testing::free_port();
  std::vector<pid_t> servers_;
};

// Waits until the run says a text behind the first `from` bytes of what it said; where the text ends.
size_t await_text(RunningProgram& run, const std::string& text, size_t from) {
  size_t at = std::string::npos;
  for (bool running = true; at == std::string::npos && running;) {
    running = run.running();  // before what it said is looked at, which is all then
    at = run.err().find(text, from);
    if (at == std::string::npos) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NE(at, std::string::npos) << "`" << text << "` is not said: " << run.err();
  return at == std::string::npos ? from : at + text.size();
}

// Waits until a run that keeps all of its checkpoints has one more.
void await_checkpoint(RunningProgram& run, const fs::path& workdir) {
  const auto count = [&] {
    std::error_code none_yet;
    int64_t whole = 0;
    for (const fs::directory_entry& one : fs::directory_iterator(workdir / "checkpoints", none_yet)) {
      if (fs::exists(one.path() / "COMMIT")) ++whole;
    }
    return whole;
  };
  const int64_t before = count();
  while (run.running() && count() <= before) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Whether a launch has brought its files to the host of that home.
bool has_program(const fs::path& home) {
  std::error_code none_yet;
  for (const fs::directory_entry& tree : fs::directory_iterator(home / ".cache/tessera/launch/trees", none_yet)) {
    if (tree.path().extension().empty() && fs::exists(tree.path() / "bin/tessera")) return true;
  }
  return false;
}

class LaunchOverSsh : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 20);
    write_images(folder_ / "val", 7);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  std::vector<std::string> words(const std::string& place, std::vector<std::string> flags,
                                 std::vector<std::string> train) const {
    std::vector<std::string> all{"launch", place, "--option=-F", "--option=" + servers_.config(), "--env", "TESSERA_CACHE_DIR"};
    // The runs here that it is compared with have these flags (tests/CMakeLists.txt).
    if (std::getenv("XLA_FLAGS")) all.insert(all.end(), {"--env", "XLA_FLAGS"});
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"--", "train", "tiny.toml", "checkpoint.every=100 steps", "eval.val.every=100 steps"});
    all.insert(all.end(), train.begin(), train.end());
    return all;
  }
  // A run on three hosts, one of which is cut off for good.
  void go_on_without(int gone) {
    Namespaces hosts(3);
    if (!hosts.made()) GTEST_SKIP() << "network namespaces are not permitted";
    std::string place = "ssh:";
    for (int i = 0; i < 3; ++i) {
      servers_.serve(hosts.name(i), hosts.address(i), {"ip", "netns", "exec", hosts.name(i)});
      place += (i ? "," : "") + hosts.name(i);
    }
    const std::vector<std::string> train = {"total=300 steps", "data.batch=12", "eval.val.batch=6", "--workdir", "run"};
    RunningProgram run(
        words(place, {"--elastic", "2..3", "--option=-oConnectTimeout=2", "--option=-oServerAliveInterval=1"}, train),
        folder_.path());
    await_step(run, folder_ / "run", 110);
    hosts.cut(gone);
    const Outcome outcome = run.wait();
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("restart 1 of 10"), HasSubstr(hosts.name(gone) + " is left out: "),
                      HasSubstr("with 2 of 3 hosts and accumulate=2 instead of 1"), HasSubstr("continues run from step 100")));
    EXPECT_EQ(outcome.err.find(hosts.name(1) + " is process 0 now") != std::string::npos, gone == 0) << outcome.err;
    EXPECT_FALSE(weights_of(folder_ / "run", "300").empty());
  }

  TempFolder folder_;
  SshServers servers_;
};

#ifdef TESSERA_HAS_BUCKETS
// Hosts that have nothing read the recipe and the data themselves, with the module that comes to them.
TEST_F(LaunchOverSsh, HostsReadBuckets) {
  servers_.serve("a", "127.0.0.1");
  servers_.serve("b", "127.0.0.2");
  write_file(folder_ / "bucket/recipe.toml", tiny_recipe());
  fs::copy(folder_ / "train", folder_ / "bucket/train", fs::copy_options::recursive);
  const testing::BucketServers buckets(folder_ / "bucket");
  std::vector<std::string> flags;
  for (const auto& [name, value] : buckets.environment()) flags.insert(flags.end(), {"--env", name});
  std::vector<std::string> command =
      words("ssh:a,b", flags, {"data.source=folder(s3://data/train)", "total=4 steps", "--workdir", "bucket_run"});
  std::ranges::replace(command, std::string("tiny.toml"), std::string("gs://data/recipe.toml"));
  const Outcome run = run_program(command, folder_.path(), buckets.environment());
  EXPECT_EQ(run.exit, 0) << run.err;
  const Outcome local = run_program({"train", "tiny.toml", "total=4 steps", "--devices", "2", "checkpoint.every=100 steps",
                                     "eval.val.every=100 steps", "--workdir", "local"},
                                    folder_.path());
  EXPECT_EQ(local.exit, 0) << local.err;
  EXPECT_EQ(weights_of(folder_ / "bucket_run", "4"), weights_of(folder_ / "local", "4"));
  command.insert(command.begin() + 2, "--dry-run");
  EXPECT_THAT(run_program(command, folder_.path(), buckets.environment()).out,
              AllOf(HasSubstr("bin/tessera_buckets.so"), Not(HasSubstr("recipe/"))));
}
#endif

// Whatever becomes of the launching machine, the run has a checkpoint and goes on from it.
TEST_F(LaunchOverSsh, HostsSaveWhenTheyAreAskedOrLeftAndEndWithTheBytesOfProcessesHere) {
  servers_.serve("a", "127.0.0.1");
  servers_.serve("b", "127.0.0.2");
  servers_.add_name("c", "127.0.0.3", "user");
  const std::vector<std::string> train = {"total=300 steps", "--workdir", "run"};
  const auto log = [&] { return read_file(folder_ / "run/log.txt"); };

  RunningProgram left(words("ssh:a,b", {}, train), folder_.path());
  await_step(left, folder_ / "run", 14);
  left.send(SIGKILL);
  ASSERT_EQ(left.wait().exit, 128 + SIGKILL) << left.err();
  while (log().find("stopped by") == std::string::npos && log().find("next ") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(log(), HasSubstr("stopped by SIGTERM"));

  RunningProgram asked(words("ssh:a,b", {}, train), folder_.path());
  await_step(asked, folder_ / "run", 100);
  asked.send(SIGINT);
  const Outcome stopped = asked.wait();
  EXPECT_EQ(stopped.exit, 130) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("[a] continues run"), HasSubstr("[a] stopped by Ctrl-C"), Not(HasSubstr("copy "))));

  const Outcome rest = run_program(words("ssh:a,c,b", {"--elastic", "1..3"}, train), folder_.path());
  EXPECT_EQ(rest.exit, 0) << rest.err;
  EXPECT_THAT(rest.err, AllOf(HasSubstr("c is left out: "), HasSubstr("Connection refused"), HasSubstr("with 2 of 3 hosts")));

  std::vector<std::string> local = words("local:2", {}, {"total=300 steps", "--workdir", "local"});
  const Outcome here = run_program(local, folder_.path());
  EXPECT_EQ(here.exit, 0) << here.err;
  ASSERT_FALSE(weights_of(folder_ / "run", "300").empty());
  EXPECT_TRUE(weights_of(folder_ / "run", "300") == weights_of(folder_ / "local", "300"));
}

// Of an etcd that listens at that address.
pid_t etcd_at(const std::string& address) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    pid_t pid = 0;
    const std::string name = entry.path().filename(), words = read_file(entry.path() / "cmdline");
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    if (words.starts_with(std::string("etcd") + '\0') && words.find("https://" + address + ":") != std::string::npos)
      return pid;
  }
  return -1;
}

TEST_F(LaunchOverSsh, AHostSaysThatItsEtcdHasEnded) {
  const std::string address = "127.0.23.1";  // no other test's
  servers_.serve("a", address);
  servers_.serve("b", "127.0.0.2");
  RunningProgram run(words("ssh:a,b", {}, {"total=1000000 steps", "--workdir", "run"}), folder_.path());
  await_step(run, folder_ / "run", 110);
  const pid_t etcd = etcd_at(address);
  ASSERT_GT(etcd, 0) << run.err();
  ::kill(etcd, SIGKILL);
  size_t heard = await_text(run, "[a] the etcd at " + address, 0);
  heard = await_text(run, " of 10", heard);  // the first restart, where none of a busy machine came before
  await_text(run, "[a] continues run from step ", heard);
  run.send(SIGTERM);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err.substr(heard), Not(HasSubstr(" of 10")));
}

TEST_F(LaunchOverSsh, MistakesAreExplained) {
  servers_.serve("a", "127.0.0.1");
  servers_.add_name("stranger", "127.0.0.1", "stranger");
  servers_.add_name("nowhere", "no.such.host.invalid", "user");
  servers_.add_name("down", "127.0.0.2", "user");
  const auto error = [&](const std::string& place, int exit, std::vector<std::string> flags = {}) {
    const Outcome outcome = run_program(words(place, std::move(flags), {}), folder_.path());
    EXPECT_EQ(outcome.exit, exit) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error("ssh:a,a", 2), HasSubstr("`a` is twice among the hosts"));
  EXPECT_THAT(error("ssh:a,-oProxyCommand=x", 2), HasSubstr("`-oProxyCommand=x` is no host"));
  EXPECT_THAT(error("ssh:a:x", 2), HasSubstr("`a:x` is no host"));
  EXPECT_THAT(error("ssh", 2), HasSubstr("no hosts are named"));
  EXPECT_THAT(error("ssh:./hosts", 2), HasSubstr("cannot read the list of hosts `./hosts`"));
  EXPECT_THAT(error("ssh:a,b,c", 2), HasSubstr("batches can't be divided over 3 hosts"));
  EXPECT_THAT(error("ssh:a", 2, {"--elastic", "3"}), HasSubstr("`--elastic` takes two numbers of hosts"));
  EXPECT_THAT(error("ssh:a", 2, {"--elastic", "2..3"}), HasSubstr("the run wants 2 hosts at least, and 1 are named"));
  EXPECT_THAT(error("ssh:a", 2, {"--env", "NO_SUCH_VARIABLE"}), HasSubstr("there is no such variable here"));
  EXPECT_THAT(error("ssh:a", 4, {"--directory", "/no/such"}), HasSubstr("a: there is no directory `/no/such`"));
  EXPECT_THAT(error("ssh:a", 4, {"--option=-oUserKnownHostsFile=/dev/null"}),
              AllOf(HasSubstr("Host key verification failed"), HasSubstr("its key is unknown")));
  write_file(folder_ / "hosts", "stranger  # with another key\n\nnowhere\ndown\na\n");
  EXPECT_THAT(error("ssh:hosts", 4),
              AllOf(HasSubstr("3 of 4 hosts cannot be used"), HasSubstr("stranger: "), HasSubstr("Permission denied"),
                    HasSubstr("nowhere: "), HasSubstr("down: "), HasSubstr("it takes no key of yours: ssh-copy-id stranger")));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

// gcloud is played by a script that says how it would reach two hosts.
TEST_F(LaunchOverSsh, AGcloudThatNamesHostsIsEnough) {
  servers_.serve("a", "127.0.0.1");
  servers_.serve("b", "127.0.0.2");
  write_file(folder_ / "bin/gcloud", fmt::format(R"(#!/bin/sh
echo "$@" >> calls
case "$*" in
  *other*) echo "ERROR: (gcloud.compute.tpus.tpu-vm.ssh) NOT_FOUND: no TPU of that name" >&2; exit 1 ;;
  *agent*) echo "ERROR: (gcloud.compute.tpus.tpu-vm.ssh) SSH Key is not present in the SSH agent. Please run \"ssh-add k\"" >&2
    exit 1 ;;
  *--dry-run*) echo Using ssh batch size of 1. >&2
    for host in a b; do echo "/usr/bin/ssh -t -F {} $host -- @command"; done ;;
esac
)",
                                                 servers_.config()));
  fs::permissions(folder_ / "bin/gcloud", fs::perms::owner_all);
  const std::map<std::string, std::string> path = {{"PATH", (folder_ / "bin").string() + ":" + std::getenv("PATH")}};
  const auto launch = [&](const std::string& name) {
    return run_program({"launch", "tpu-vm:" + name, "--option=--zone=z", "--env", "TESSERA_CACHE_DIR", "--", "train",
                        "tiny.toml", "--workdir", "run"},
                       folder_.path(), path);
  };
  const Outcome good = launch("mine");
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_THAT(good.err, HasSubstr("[worker-0] checkpoint  run/checkpoints/step_000000006"));
  EXPECT_EQ(read_file(folder_ / "calls"),
            "compute tpus tpu-vm ssh mine --worker=all --command=true --quiet --zone=z\n"
            "compute tpus tpu-vm ssh mine --worker=all --command=@command --quiet --dry-run --zone=z\n");
  const Outcome bad = launch("other");
  EXPECT_EQ(bad.exit, 4) << bad.err;
  EXPECT_THAT(bad.err, AllOf(HasSubstr("NOT_FOUND: no TPU of that name"), HasSubstr("--option=--zone=ZONE")));
  const Outcome no_agent = launch("agent");
  EXPECT_EQ(no_agent.exit, 4) << no_agent.err;
  EXPECT_THAT(no_agent.err, AllOf(HasSubstr("ssh-add k"), HasSubstr("eval \"$(ssh-agent)\""), Not(HasSubstr("ZONE"))));
}

// The run's process 0 stays where it is, on a host behind it in the list.
TEST_F(LaunchOverSsh, AHostThatComesLateIsTakenIn) {
  servers_.serve("a", "127.0.0.1");
  servers_.serve("b", "127.0.0.2");
  servers_.add_name("c", "127.0.0.3", "user");
  RunningProgram run(
      words("ssh:c,a,b", {"--elastic", "2..3"},
            {"total=1000000 steps", "data.batch=12", "eval.val.batch=6", "checkpoint.keep=100000", "--workdir", "run"}),
      folder_.path(), {{"TESSERA_RETURN_PAUSE", "100"}});
  size_t heard = await_text(run, "with 2 of 3 hosts and accumulate=2 instead of 1", 0);
  heard = await_text(run, "a is process 0 now", heard);
  await_checkpoint(run, folder_ / "run");
  servers_.serve("c", "127.0.0.3", {}, folder_ / "home_of_c");
  const size_t back = await_text(run, "c is back: the run saves and goes on with 3 hosts", heard);
  EXPECT_TRUE(has_program(folder_ / "home_of_c")) << "the others train while it is copied";
  await_text(run, "[a] continues run from step ", back);
  await_checkpoint(run, folder_ / "run");
  run.send(SIGTERM);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err.substr(back), AllOf(Not(HasSubstr("is process 0 now")), Not(HasSubstr("start again"))));
}

TEST_F(LaunchOverSsh, AHostThatIsGoneForGoodIsLeftOut) { go_on_without(1); }
// It had process 0 and the etcd, too.
TEST_F(LaunchOverSsh, AHostThatIsFirstAndGoneForGoodIsLeftOut) { go_on_without(0); }

// Three hosts, two, and three again: each time the bytes of so many processes here, which go on from the same checkpoint.
TEST_F(LaunchOverSsh, AHostThatIsBackIsTakenIn) {
  Namespaces hosts(3);
  if (!hosts.made()) GTEST_SKIP() << "network namespaces are not permitted";
  const auto serve = [&](int i) { servers_.serve(hosts.name(i), hosts.address(i), {"ip", "netns", "exec", hosts.name(i)}); };
  for (int i = 0; i < 3; ++i) serve(i);
  const std::vector<std::string> batches = {"data.batch=12", "eval.val.batch=6", "checkpoint.keep=100000", "--workdir"};
  std::vector<std::string> train = batches;
  train.insert(train.end(), {"run", "total=1000000 steps"});
  RunningProgram run(words("ssh:" + hosts.name(0) + "," + hosts.name(1) + "," + hosts.name(2),
                           {"--elastic", "2..3", "--option=-oConnectTimeout=2", "--option=-oServerAliveInterval=1"}, train),
                     folder_.path(), {{"TESSERA_RETURN_PAUSE", "100"}});
  size_t heard = 0;  // what it says is waited for in this order
  const auto await = [&](const std::string& text) { heard = await_text(run, text, heard); };
  // The number behind it, which has commas: "1,200".
  const auto await_number = [&](const std::string& text) {
    await(text);
    while (run.running() && run.err().find('\n', heard) == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::string digits;
    for (const char c : run.err().substr(heard)) {
      if (c != ',' && (c < '0' || c > '9')) break;
      if (c != ',') digits += c;
    }
    return digits;
  };
  const std::string continues = "continues run from step ";
  await_checkpoint(run, folder_ / "run");
  hosts.cut(1);
  await("with 2 of 3 hosts and accumulate=2 instead of 1");
  const std::string cut = await_number(continues);
  await_checkpoint(run, folder_ / "run");
  hosts.mend(1);
  serve(1);
  await(hosts.name(1) + " is back: the run saves and goes on with 3 hosts");
  const size_t back = heard;
  const std::string larger = await_number(continues);
  await_checkpoint(run, folder_ / "run");
  run.send(SIGTERM);
  await("stopped by ");  // the signal, or another process that had it first
  const std::string end = await_number(" after step ");
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err.substr(back), Not(HasSubstr("start again")));

  const auto expect_same = [&](const std::string& place, const std::string& from, const std::string& to,
                               const std::string& accumulate) {
    std::vector<std::string> again = batches;
    again.insert(again.end(), {place, "resume=run@" + from, "total=" + to + " steps", "accumulate=" + accumulate});
    const Outcome here = run_program(words(place, {}, again), folder_.path());
    EXPECT_EQ(here.exit, 0) << here.err;
    ASSERT_FALSE(weights_of(folder_ / place, to).empty());
    EXPECT_TRUE(weights_of(folder_ / "run", to) == weights_of(folder_ / place, to)) << place;
  };
  expect_same("local:2", cut, larger, "2");
  expect_same("local:3", larger, end, "1");
}

}  // namespace
}  // namespace tessera::cli
