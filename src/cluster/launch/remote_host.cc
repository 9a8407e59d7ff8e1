#include "cluster/launch/remote_host.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/text/shell.h"
#include "base/text/text.h"

namespace tessera::launch {
namespace {

constexpr int kConnectionLost = 255;  // of ssh

// Of an answer, the lines that are for us, and what else was said: by ssh, by the shell.
struct Answer {
  std::vector<std::string> lines;
  std::string last;
  int exit = 0;

  // What follows that word in the first line that begins with it.
  std::optional<std::string> find(std::string_view word) const {
    for (const std::string& line : lines) {
      if (line.starts_with(word)) return line.substr(std::min(line.size(), word.size() + 1));
    }
    return std::nullopt;
  }
};

std::vector<std::string> command_on(const RemoteHost& host, const std::string& command) {
  std::vector<std::string> words = host.shell;
  words.back() += command;
  return words;
}

// Runs a script there. `feed` gives it its input.
Answer ask(const RemoteHost& host, const std::string& script, const std::function<void(Child&)>& feed) {
  Answer answer;
  ChildOptions options;
  options.name = host.name;
  options.command = command_on(host, "sh -c " + shell_quoted(script));
  options.input = "";
  options.on_line = [&answer](const std::string& line) {
    if (line.starts_with("@")) {
      answer.lines.push_back(line);
    } else if (!trim(line).empty()) {
      answer.last = trim(line);
    }
  };
  Child child(std::move(options));
  feed(child);
  child.close_input();
  child.wait();
  answer.exit = child.exit_code();
  return answer;
}

std::string help_for(const std::string& name, const std::string& reason, int exit, const std::string& program) {
  const auto has = [&](const char* text) { return reason.find(text) != std::string::npos; };
  if (exit == 127) return fmt::format("is {} installed here?", program);
  if (has("Permission denied"))
    return fmt::format(
        "it takes no key of yours: ssh-copy-id {0}, or ssh-add where the key has a passphrase; `ssh {0} true` must "
        "work without a question",
        name);
  if (has("Host key verification failed"))
    return fmt::format("its key is unknown or another one: run `ssh {} true` once and look", name);
  if (has("Could not resolve")) return "there is no host of that name: look at the list of hosts";
  return fmt::format("try `ssh {} true`", name);
}

// The part of a script that makes the directory of the launch from files that are all there.
std::string link_script(const std::vector<HashedFile>& files) {
  const std::string id = digest_of(files).substr(0, 32);
  std::string script = fmt::format(R"(t="$d/trees/{}"; n="$t.$u"
if [ ! -d "$t" ]; then
  mkdir -p "$n/bin" "$n/lib" "$n/recipe" || exit 1
)",
                                   id);
  for (const HashedFile& file : files) {
    script += fmt::format("  ln \"$d/blobs/{}\" \"$n/\"{} || exit 1\n", file.sha256, shell_quoted(file.file.name));
  }
  return script + R"(  mv -T "$n" "$t" 2>/dev/null || rm -r "$n"
fi
touch "$t"
find "$d/trees" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -r {} +
find "$d/blobs" -type f -links 1 -mtime +30 -delete
echo "@files $t"
)";
}

constexpr const char* kBegin = R"(umask 077
d="$HOME/.cache/tessera/launch"; u="$(uname -n).$$"
mkdir -p "$d/blobs" "$d/trees" || exit 1
)";

std::string look_script(const std::vector<HashedFile>& files, const std::string& directory) {
  std::string script = std::string(kBegin) + "echo \"@address $SSH_CONNECTION\"\n";
  script += fmt::format("[ -d {} ] || echo @nodirectory\nl=\n", shell_quoted(directory));
  std::set<std::string> sums;
  for (const HashedFile& file : files) sums.insert(file.sha256);
  for (const std::string& sum : sums) {
    script += fmt::format("[ -f \"$d/blobs/{0}\" ] || {{ l=1; echo \"@lacks {0}\"; }}\n", sum);
  }
  return script + "[ -z \"$l\" ] || exit 0\n" + link_script(files);
}

// Takes "SHA256 BYTES", a line, and then so many bytes, as often as they come.
std::string receive_script(const std::vector<HashedFile>& files) {
  return std::string(kBegin) + R"(while read -r sum bytes; do
  p="$d/blobs/$sum.$u"
  head -c "$bytes" > "$p" || { rm -f "$p"; exit 1; }
  set -- $(sha256sum "$p")
  [ "$1" = "$sum" ] || { rm -f "$p"; echo "a file arrived damaged"; exit 1; }
  # A file that is there stays: hosts with one home come at once, and another may be linking it.
  chmod 700 "$p" || exit 1
  ln "$p" "$d/blobs/$sum" 2>/dev/null; rm "$p"
  [ -f "$d/blobs/$sum" ] || { echo "$d takes no file"; exit 1; }
done
)" + link_script(files);
}

void send_files(Child& to, const std::vector<HashedFile>& files, const std::set<std::string>& wanted,
                const std::atomic<bool>& abandoned) {
  std::set<std::string> left = wanted;
  std::vector<char> part(size_t{1} << 20);
  for (const HashedFile& file : files) {
    if (left.erase(file.sha256) == 0) continue;
    bool good = to.write(fmt::format("{} {}\n", file.sha256, file.bytes));
    std::ifstream in(file.file.from, std::ios::binary);
    while (good && in && !abandoned) {
      in.read(part.data(), static_cast<std::streamsize>(part.size()));
      good = to.write({part.data(), static_cast<size_t>(in.gcount())});
    }
    if (!good || abandoned) return;  // the other end says why
  }
}

// "client port server port", as sshd says it.
std::string own_address(const std::string& connection) {
  const std::vector<std::string> parts = split(connection, ' ');
  if (parts.size() != 4) return "127.0.0.1";
  return parts[2].find(':') == std::string::npos ? parts[2] : fmt::format("[{}]", parts[2]);
}

}  // namespace

Reached reach(const RemoteHost& host, const std::vector<HashedFile>& files, const std::string& directory,
              const std::atomic<bool>& abandoned) {
  Reached reached;
  const auto fail = [&](const Answer& answer) {
    reached.problem = answer.last.empty() ? fmt::format("{} ended with exit code {}", host.shell[0], answer.exit) : answer.last;
    reached.help = help_for(host.name, answer.last, answer.exit, host.shell[0]);
    return reached;
  };
  Answer answer = ask(host, look_script(files, directory), [](Child&) {});
  if (answer.exit != 0) return fail(answer);
  reached.address = own_address(answer.find("@address").value_or(""));
  if (answer.find("@nodirectory")) {
    reached.problem = fmt::format("there is no directory `{}`", directory);
    reached.help = "the processes run there on all hosts; --directory DIR names another";
    return reached;
  }
  std::set<std::string> lacking;
  for (const std::string& line : answer.lines) {
    if (line.starts_with("@lacks ")) lacking.insert(line.substr(7));
  }
  if (!lacking.empty()) {
    double bytes = 0;
    std::set<std::string> counted = lacking;
    for (const HashedFile& file : files) bytes += counted.erase(file.sha256) ? static_cast<double>(file.bytes) : 0;
    log_line(fmt::format("copy     {} to {}", human_bytes(bytes), host.name));
    answer = ask(host, receive_script(files), [&](Child& child) { send_files(child, files, lacking, abandoned); });
    if (answer.exit != 0) return fail(answer);
  }
  const auto directory_there = answer.find("@files");
  if (!directory_there) return fail(answer);
  reached.files = *directory_there;
  return reached;
}

std::unique_ptr<Child> start_look(const RemoteHost& host, const std::string& directory) {
  ChildOptions options;
  options.name = host.name;
  options.command = {"sh", "-c", R"(exec "$@" < /dev/null > /dev/null 2>&1)", "sh"};
  const std::vector<std::string> words = command_on(host, "test -d " + shell_quoted(directory));
  options.command.insert(options.command.end(), words.begin(), words.end());
  options.own_group = true;
  return std::make_unique<Child>(std::move(options));
}

namespace {

ChildOptions remote_options(const RemoteHost& host, const Reached& reached, const HostRequest& request,
                            std::function<void(const std::string&)> on_line) {
  ChildOptions options;
  options.name = host.name;
  options.command = command_on(host, fmt::format("env LD_LIBRARY_PATH={} {} launch host", shell_quoted(reached.files + "/lib"),
                                                 shell_quoted(reached.files + "/bin/tessera")));
  options.own_group = true;
  options.input = to_line(request);
  options.serves = !request.etcd.empty();
  options.on_line = std::move(on_line);
  return options;
}

}  // namespace

RemoteChild::RemoteChild(const RemoteHost& host, const Reached& reached, const HostRequest& request,
                         std::function<void(const std::string&)> on_line)
    : Child(remote_options(host, reached, request, std::move(on_line))) {}

void RemoteChild::send(int signal) {
  if (ended()) return;
  write(fmt::format("signal {}\n", signal));
  // One that is not even killed is beyond reach.
  if (signal == SIGKILL && std::exchange(killed_, true)) Child::send(SIGKILL);
}

void RemoteChild::tick() {
  if (!ended()) write("\n");
}

std::string RemoteChild::end() const {
  if (exit_code() == kConnectionLost) return fmt::format("the connection to {} is lost", name());
  if (exit()) return fmt::format("{} ended with exit code {}", name(), exit_code());
  return fmt::format("the process on {} was killed ({})", name(), ::strsignal(exit_code() - 128));
}

}  // namespace tessera::launch
