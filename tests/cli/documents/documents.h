#pragma once
// Which documents there are, and the code in them: commands and blocks.

#include <string>
#include <vector>

namespace tessera::cli {

using Words = std::vector<std::string>;

// A line of a shell, without its comment: quotes hold a word together.
Words shell_words(const std::string& line);

struct Found {
  std::string document, line;
  bool in_text = false;  // between backquotes: it may be the name of a thing, and a flag may stand without its value
};

std::vector<std::string> all_documents();

// A block of code: `text` is its lines, and `language` what follows its fence.
struct Block {
  std::string language, text;
};

std::vector<Block> blocks_in(const std::string& document);

// The code of a document: lines of code blocks, with continued ones joined, and text between backquotes in other lines.
std::vector<Found> code_in(const std::string& document);

}  // namespace tessera::cli
